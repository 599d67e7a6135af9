"""`rota top`: the cluster at a glance, again every second."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import click

from rota.domain.errors import RateLimitedError, UnavailableError
from rota.interfaces.cli.connect import connect, server_option
from rota.interfaces.cli.output import Table, is_terminal, print_rows, rich_table
from rota.interfaces.cli.tables import QUEUES, TASKS, WORKERS, with_ages
from rota.interfaces.cli.text import cell, moment, safe

if TYPE_CHECKING:
    from rich.console import Group

    from rota.client.blocking import Client
    from rota.sdk.views import TaskView
    from rota.wire.cluster import Cluster, Queues, Stats, Worker

ROWS = 10
EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What is seen at one moment."""

    cluster: "Cluster"
    stats: "Stats"
    queues: "Queues"
    workers: "list[Worker]"
    running: "list[TaskView]"


@click.command()
@server_option
def top(url: str | None) -> None:
    """Watch the cluster; q or Ctrl-C ends. Without a terminal it shows one moment."""
    with connect(url) as client:
        if not is_terminal():
            _print(_look(client))
            return
        _live(client)


def _live(client: "Client") -> None:
    from rich.live import Live
    from rich.text import Text

    with _keys(), Live(Text("looking …"), screen=True, auto_refresh=False) as live:
        while True:
            try:
                live.update(_render(_look(client)), refresh=True)
            except (UnavailableError, RateLimitedError) as error:
                live.update(Text(f"{safe(str(error))}; trying again"), refresh=True)
            if _is_quit():
                return


def _look(client: "Client") -> Glance:
    return Glance(
        cluster=client.cluster(),
        stats=client.stats(),
        queues=client.queues(),
        workers=list(islice(client.workers.list(page_size=ROWS), ROWS)),
        running=list(islice(client.tasks.list(page_size=ROWS, status="PROCESSING"), ROWS)),
    )


def _head(glance: Glance) -> list[str]:
    cluster, stats, queues = glance.cluster, glance.stats, glance.queues
    counts = "  ".join(f"{status} {number}" for status, number in stats.tasks.items())
    leader = safe(cluster.leader or "nobody")
    return [
        f"{moment(cluster.now)}  leader {leader}, term {cluster.term}, nodes {len(cluster.nodes)}",
        counts or "no tasks yet",
        f"per second: {stats.created_per_second:.3g} created, {stats.completed_per_second:.3g} completed,"
        f" {stats.failed_per_second:.3g} failed; delayed {queues.delayed}, assigned {queues.assigned},"
        f" running {queues.running}",
    ]


def _sections(glance: Glance) -> list[tuple[str, list[object], Table]]:
    return [
        ("Queues", [level for level in glance.queues.items if level.ready], QUEUES),
        ("Workers", [*glance.workers], with_ages(WORKERS, glance.cluster.now)),
        ("Running", [*glance.running], TASKS),
    ]


def _print(glance: Glance) -> None:
    click.echo("\n".join(_head(glance)))
    for title, items, table in _sections(glance):
        click.echo(f"\n{title}")
        print_rows(items, table)


def _render(glance: Glance) -> "Group":
    from rich.console import Group
    from rich.text import Text

    parts: list[object] = [Text("\n".join(_head(glance)))]
    for title, items, table in _sections(glance):
        columns = [column for column in table.columns if not column.is_wide]
        rows = [[cell(column.value(item)) for column in columns] for item in items]
        titles = [column.title for column in columns]
        parts += [Text(f"\n{title}", style="bold"), rich_table(titles, rows, is_short=True)]
    return Group(*parts, Text("\nq ends", style="dim"))  # type: ignore[arg-type] # all of them can be shown


@contextmanager
def _keys() -> Iterator[None]:
    """Keys count when they are pressed, not with the next line, and are not shown."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _is_quit() -> bool:
    """Wait a second, or until a key is pressed."""
    pressed, _, _ = select.select([sys.stdin], [], [], EVERY_S)
    return bool(pressed) and (os.read(sys.stdin.fileno(), 64).lower() or b"q").startswith(b"q")
