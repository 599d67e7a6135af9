"""`rota queue`, `rota stats` and `rota cluster`: figures."""

from typing import TYPE_CHECKING

import click

from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.output import document, output_option, print_rows, show_list, show_one
from rota.interfaces.cli.tables import ELECTIONS, NODES, QUEUE_TYPES, QUEUES, nodes_at
from rota.interfaces.cli.text import safe

if TYPE_CHECKING:
    from rota.wire.cluster import Cluster, Queues, QueueTypes, Stats


@click.group()
def queue() -> None:
    """Look at the queues."""


@queue.command()
@output_option
@watch_option
@server_option
def ls(output: str, *, watch: bool, url: str | None) -> None:
    """List what is ready by priority, and what waits for its time."""
    with connect(url) as client:
        repeat(lambda: _show_queues(client.queues(), output), watch=watch)


@queue.command()
@output_option
@watch_option
@server_option
def types(output: str, *, watch: bool, url: str | None) -> None:
    """List what waits and runs of each type."""
    with connect(url) as client:
        repeat(lambda: _show_queue_types(client.queue_types(), output), watch=watch)


@click.command()
@output_option
@watch_option
@server_option
def stats(output: str, *, watch: bool, url: str | None) -> None:
    """Count tasks by state, and say how many come and go."""
    with connect(url) as client:
        repeat(lambda: _show_stats(client.stats(), output), watch=watch)


@click.command()
@click.option("--elections", is_flag=True, help="Show who led, from when to when, and how that ended.")
@output_option
@watch_option
@server_option
def cluster(output: str, *, elections: bool, watch: bool, url: str | None) -> None:
    """Show the nodes, and who leads."""
    with connect(url) as client:
        if elections:
            repeat(lambda: show_list(client.elections(), ELECTIONS, output=output), watch=watch)
        else:
            repeat(lambda: _show_cluster(client.cluster(), output), watch=watch)


def _show_queues(found: "Queues", output: str) -> None:
    if output in ("json", "yaml"):
        show_one(found, QUEUES, output=output)
        return
    show_list(found.items, QUEUES, output=output)
    if output != "name":
        click.echo(f"delayed {found.delayed}, assigned {found.assigned}, running {found.running}")


def _show_queue_types(found: "QueueTypes", output: str) -> None:
    if output in ("json", "yaml"):
        show_one(found, QUEUE_TYPES, output=output)
        return
    show_list(found.items, QUEUE_TYPES, output=output)
    if output == "name":
        return
    if found.set_aside:
        click.echo(f"set aside {found.set_aside}, of all tenants: no worker takes their type or has room, or a limit")
    if not found.complete:
        click.echo("more lives than is counted: these are lower bounds")


def _show_stats(found: "Stats", output: str) -> None:
    if output in ("json", "yaml"):
        show_one(found, QUEUES, output=output)
        return
    counts = document(found)["tasks"]
    for status, number in counts.items():
        click.echo(f"{status:<12}{number:>10}")
    if not counts:
        click.echo("no tasks yet")
    click.echo(
        f"per second over {found.window_seconds:.3g} s: {found.created_per_second:.3g} created,"
        f" {found.completed_per_second:.3g} completed, {found.failed_per_second:.3g} failed"
    )


def _show_cluster(found: "Cluster", output: str) -> None:
    if output in ("json", "yaml"):
        show_one(found, NODES, output=output)
        return
    if output == "name":
        show_list(found.nodes, NODES, output=output)
        return
    print_rows(found.nodes, nodes_at(found.now), is_wide=output == "wide")
    leader = safe(found.leader) if found.leader else "nobody"
    click.echo(f"{leader} leads, term {found.term}; store {safe(found.store)}, coordinator {safe(found.coordinator)}")
