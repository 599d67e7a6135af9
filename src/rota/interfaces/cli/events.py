"""`rota events`: what happens, as it happens."""

import click

from rota.domain.events import check_event_id
from rota.interfaces.cli.connect import connect, server_option
from rota.interfaces.cli.output import A_LINE_EACH, document
from rota.interfaces.cli.tables import EVENTS
from rota.interfaces.cli.text import cell, compact


@click.command()
@click.option("--after", metavar="ID", help="Begin after this event, as far as it is known; -o json shows ids.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only tasks of this type; may be repeated.")
@click.option(
    "--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind, such as task.failed; may be repeated."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help=A_LINE_EACH)
@server_option
def events(after: str | None, *, types: tuple[str, ...], kinds: tuple[str, ...], output: str, url: str | None) -> None:
    """Print what happens to tasks and workers, until Ctrl-C."""
    if after is not None:
        check_event_id("--after", after)
    with connect(url) as client:
        for event in client.events(after, types=types, kinds=kinds, on_missed=_tell_gap):
            if output == "json":
                click.echo(compact(document(event)))
            else:
                click.echo("  ".join(cell(column.value(event)) for column in EVENTS.columns))


def _tell_gap() -> None:
    click.echo("some events are no longer known and missing here", err=True)
