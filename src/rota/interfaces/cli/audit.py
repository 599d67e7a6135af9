"""`rota audit`: who changed what."""

import click

from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.options import WholeNumber
from rota.interfaces.cli.output import output_option, show_list
from rota.interfaces.cli.tables import AUDIT


@click.group()
def audit() -> None:
    """Look at the record of changes."""


@audit.command()
@click.option("--limit", type=WholeNumber(1, 100_000), default=50, help="The most to show.  [default: 50]")
@output_option
@watch_option
@server_option
def ls(limit: int, output: str, *, watch: bool, url: str | None) -> None:
    """List who changed what, newest first."""
    with connect(url) as client:
        size = min(limit + 1, 1000)
        repeat(lambda: show_list(client.audit(page_size=size), AUDIT, output=output, limit=limit), watch=watch)
