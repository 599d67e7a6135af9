"""`rota worker`: run a worker, or look after those that run."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.options import WholeNumber, process_options
from rota.interfaces.cli.output import output_option, show_list, show_one
from rota.interfaces.cli.tables import WORKERS

if TYPE_CHECKING:
    from rota.wire.cluster import Worker


@click.group(invoke_without_command=True)
@process_options
@click.option("--processes", type=WholeNumber(1, 256), help="Worker processes, to use several cores.")
@click.pass_context
def worker(  # fixed signature: click
    context: click.Context, config: Path | None, app: str | None, *, changes: tuple[str, ...], processes: int | None
) -> None:
    """Run a worker, or look after those that run.

    Without a command it runs one until SIGTERM, and then lets it finish what it has.
    """
    if context.invoked_subcommand is None:
        from rota.interfaces.cli.run import run_worker

        run_worker(config, app, changes=changes, processes=processes)
    elif app or changes or processes:
        raise click.UsageError(
            f"--app, --set and --processes are for a worker to run, not for {context.invoked_subcommand}."
        )


@worker.command()
@output_option
@watch_option
@server_option
def ls(output: str, *, watch: bool, url: str | None) -> None:
    """List the workers."""
    with connect(url) as client:
        repeat(lambda: show_list(client.workers.list(), WORKERS, output=output), watch=watch)


@worker.command()
@click.argument("worker_id", metavar="ID")
@output_option
@server_option
def get(worker_id: str, output: str, *, url: str | None) -> None:
    """Show a worker."""
    with connect(url) as client:
        show_one(client.workers.get(worker_id), WORKERS, output=output)


@worker.command()
@click.argument("worker_id", metavar="ID")
@server_option
def drain(worker_id: str, *, url: str | None) -> None:
    """Let a worker finish what it has and take nothing new."""
    with connect(url) as client:
        _say(client.workers.drain(worker_id), "drains")


@worker.command()
@click.argument("worker_id", metavar="ID")
@server_option
def resume(worker_id: str, *, url: str | None) -> None:
    """Let a worker take tasks again."""
    with connect(url) as client:
        _say(client.workers.resume(worker_id), "takes tasks")


@worker.command()
@click.argument("worker_id", metavar="ID")
@click.argument("capacity", metavar="TASKS", type=WholeNumber(1))
@server_option
def capacity(worker_id: str, capacity: int, *, url: str | None) -> None:
    """Change how many tasks a worker runs at once."""
    with connect(url) as client:
        _say(client.workers.set_capacity(worker_id, capacity), f"runs up to {capacity} at once")


def _say(found: "Worker", what: str) -> None:
    from rota.interfaces.cli.text import safe

    click.echo(f"worker {found.id} ({safe(found.name)}) {what}")
