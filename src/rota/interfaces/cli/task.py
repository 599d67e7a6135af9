"""`rota task`: submit tasks, look at them, end them and do them again."""

from typing import TYPE_CHECKING, Any

import click

from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.errors import FAILURE, OK
from rota.interfaces.cli.filters import filter_options, read_filters, read_time
from rota.interfaces.cli.lazy import LazyGroup
from rota.interfaces.cli.options import WholeNumber
from rota.interfaces.cli.output import A_LINE_EACH, PRINTED, document, output_option, show_list, show_one
from rota.interfaces.cli.tables import TASKS
from rota.interfaces.cli.text import compact, exact_moment, safe, safe_lines

if TYPE_CHECKING:
    from rota.wire.task import LogLine

PLACES = {
    "submit": "rota.interfaces.cli.task_submit",
    "cancel": "rota.interfaces.cli.task_bulk",
    "retry": "rota.interfaces.cli.task_bulk",
    "reprioritise": "rota.interfaces.cli.task_bulk",
}


@click.group(cls=LazyGroup, places=PLACES)
def task() -> None:
    """Submit tasks, look at them, end them, do them again."""


@task.command()
@filter_options
@click.option("--limit", type=WholeNumber(1, 100_000), default=50, help="The most to show.  [default: 50]")
@click.option("--full", is_flag=True, help="With payloads, results and errors whole, however large (-o json).")
@output_option
@watch_option
@server_option
def ls(limit: int, output: str, *, full: bool, watch: bool, url: str | None, **given: Any) -> None:
    """List tasks, newest first."""
    filters = read_filters(given)
    with connect(url) as client:
        repeat(
            lambda: show_list(
                client.tasks.list(page_size=min(limit + 1, 1000), full=full, **filters),
                TASKS,
                output=output,
                limit=limit,
            ),
            watch=watch,
        )


@task.command()
@click.argument("task_id", metavar="ID")
@output_option
@server_option
def get(task_id: str, output: str, *, url: str | None) -> None:
    """Show a task with everything it has."""
    with connect(url) as client:
        show_one(client.tasks.get(task_id), TASKS, output=output)


@task.command()
@click.argument("task_id", metavar="ID")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help=PRINTED)
@server_option
def explain(task_id: str, output: str, *, url: str | None) -> None:
    """Say why a task is where it is."""
    with connect(url) as client:
        found = client.tasks.explain(task_id)
    if output == "table":
        click.echo(f"{found.status}: {safe(found.sentence)}")
    else:
        show_one(found, TASKS, output=output)


@task.command()
@click.argument("task_id", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on until the task has ended.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help=A_LINE_EACH)
@server_option
def logs(task_id: str, *, follow: bool, output: str, url: str | None) -> None:
    """Print a task's record: transitions and its own lines."""
    with connect(url) as client:
        lines = client.tasks.follow(task_id) if follow else client.tasks.logs(task_id)
        for line in lines:
            click.echo(compact(document(line)) if output == "json" else _text_of(line))


@task.command()
@click.argument("task_id", metavar="ID")
@server_option
def watch(task_id: str, *, url: str | None) -> int:
    """Follow a task from state to state; fails unless it succeeds."""
    with connect(url) as client:
        for line in client.tasks.follow(task_id):
            if line.to_status is not None:
                click.echo(_head_of(line))
        ended = client.tasks.get(task_id)
    return OK if ended.status == "SUCCESS" else FAILURE


@task.command()
@click.argument("task_id", metavar="ID")
@click.option("--priority", metavar="0..9|normal|high|urgent", help="How urgent it is.")
@click.option("--at", "scheduled_at", metavar="TIME", help="When it starts, such as 2026-01-31T09:00:00Z.")
@output_option
@server_option
def amend(task_id: str, *, priority: str | None, scheduled_at: str | None, output: str, url: str | None) -> None:
    """Change a task that waits."""
    from rota.interfaces.cli.task_submit import read_priority

    if priority is None and scheduled_at is None:
        raise click.UsageError("Give --priority or --at: they say what changes.")
    with connect(url) as client:
        changed = client.tasks.patch(
            task_id, priority=read_priority(priority), scheduled_at=read_time("--at", scheduled_at)
        )
        show_one(changed, TASKS, output=output)


def _text_of(line: "LogLine") -> str:
    detail = [f"    {part}" for part in safe_lines(line.detail.rstrip())] if line.detail else []
    return "\n".join([_head_of(line), *detail])


def _head_of(line: "LogLine") -> str:
    is_change = line.to_status is not None and line.to_status != line.from_status
    change = f"{line.from_status or '-'} → {line.to_status}" if is_change else ""
    attempt = f"#{line.attempt}" if is_change and line.attempt else ""
    worker = f"worker {line.worker_id}" if is_change and line.worker_id else ""
    parts = (exact_moment(line.at), line.kind, change, attempt, worker, safe(line.message))
    return "  ".join(part for part in parts if part)
