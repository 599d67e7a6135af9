"""`rota schedule`: when types fire, and what became of it."""

from typing import TYPE_CHECKING

import click

from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.output import output_option, show_list, show_one
from rota.interfaces.cli.tables import OCCURRENCES, PREVIEWS
from rota.interfaces.cli.text import safe

if TYPE_CHECKING:
    from rota.wire.schedule import SchedulePreview

count_option = click.option(
    "-n", "--count", type=click.IntRange(1, 1000), default=5, help="Targets before and after now.  [default: 5]"
)


@click.group()
def schedule() -> None:
    """See when types fire, and what became of it."""


@schedule.command()
@click.argument("expression", metavar="CRON")
@click.option("--zone", default="UTC", help="Whose clock it means, such as Asia/Shanghai.  [default: UTC]")
@click.option("--dialect", type=click.Choice(["vixie", "quartz"]), default="vixie", help="How it is written.")
@click.option("--type", "task_type", default="", help="The type of the tasks, from which H is derived.")
@count_option
@output_option
@server_option
def preview(expression: str, *, count: int, output: str, url: str | None, **given: str) -> None:
    """Say in words and in times when an expression fires; nothing is stored."""
    wanted = {"cron": expression, "zone": given["zone"], "dialect": given["dialect"]}
    with connect(url) as client:
        _show(client.schedules.preview(wanted, type=given["task_type"], count=count), output)


@schedule.command(name="next")
@click.argument("task_type", metavar="TYPE")
@count_option
@output_option
@server_option
def next_fires(task_type: str, *, count: int, output: str, url: str | None) -> None:
    """Say in words and in times when a type fires."""
    with connect(url) as client:
        _show(client.schedules.get(task_type, count=count), output)


@schedule.command()
@click.argument("task_type", metavar="TYPE")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, help="The most to show.  [default: 50]")
@output_option
@watch_option
@server_option
def occurrences(task_type: str, *, limit: int, output: str, watch: bool, url: str | None) -> None:
    """List what became of the targets of a type, newest first: fired, or skipped and why."""
    with connect(url) as client:
        repeat(
            lambda: show_list(client.schedules.occurrences(task_type, limit=limit), OCCURRENCES, output=output),
            watch=watch,
        )


def _show(found: "SchedulePreview", output: str) -> None:
    if output in ("json", "yaml", "name"):
        show_one(found, PREVIEWS, output=output)
        return
    click.echo(safe(found.in_english))
    click.echo(safe(found.in_chinese))
    for at in reversed(found.recent):
        click.echo(f"  {at.isoformat()}  past")
    for at in found.upcoming:
        click.echo(f"  {at.isoformat()}")
