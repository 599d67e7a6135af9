"""`rota audit`: who changed what."""

from typing import TYPE_CHECKING, Any

import click

from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.filters import read_time
from rota.interfaces.cli.options import WholeNumber
from rota.interfaces.cli.output import output_option, show_list
from rota.interfaces.cli.tables import AUDIT

if TYPE_CHECKING:
    from rota.client.cluster_calls import AuditOptions


@click.group()
def audit() -> None:
    """Look at the record of changes."""


@audit.command()
@click.option("--limit", type=WholeNumber(1, 100_000), default=50, help="The most to show.  [default: 50]")
@click.option("--actor", default="", metavar="NAME", help="Of the token with this name.")
@click.option("--action", default="", metavar="ACTION", help="Of this kind, such as task.cancel.")
@click.option("--object", default="", metavar="ID|TYPE", help="Done to this.")
@click.option("--after", metavar="TIME", help="From this time on.")
@click.option("--before", metavar="TIME", help="From before this time.")
@click.option("--cluster", is_flag=True, help="What the cluster did itself, such as elections.")
@output_option
@watch_option
@server_option
def ls(limit: int, output: str, *, watch: bool, url: str | None, **given: Any) -> None:
    """List who changed what, newest first."""
    times = {name: read_time(f"--{name}", given[name]) for name in ("after", "before")}
    wanted: AuditOptions = {**given, **times}  # type: ignore[typeddict-item] # the keys are those of the options above
    with connect(url) as client:
        size = min(limit + 1, 1000)
        repeat(
            lambda: show_list(client.audit(page_size=size, **wanted), AUDIT, output=output, limit=limit), watch=watch
        )
