"""A task that somebody else finishes: a print shop, which has a day for it."""

from pathlib import Path

import rota


@rota.task("print_book", timeout="1d", retries=2, give_up_on=["no_such_title"], total_timeout="3d")
def print_book(ctx: rota.Context, title: str) -> None:
    Path("inbox").mkdir(exist_ok=True)  # where this print shop looks; another one would be sent a request
    Path("inbox", title).write_text(ctx.callback)
    raise rota.Defer
