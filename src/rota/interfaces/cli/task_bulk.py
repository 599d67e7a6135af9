"""`rota task cancel`, `rota task retry` and `rota task reprioritise`: for tasks by id, or for all that match."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from rota.domain.errors import InvalidError, RotaError
from rota.domain.task import TaskStatus
from rota.interfaces.cli.connect import connect, server_option
from rota.interfaces.cli.errors import CONFLICT, OK, exit_code_for
from rota.interfaces.cli.filters import describe, filter_options, read_filters, read_level
from rota.interfaces.cli.output import confirm
from rota.interfaces.cli.task_submit import read_payload
from rota.interfaces.cli.text import safe

if TYPE_CHECKING:
    from rota.client.blocking import Client
    from rota.client.task_calls import TaskFilters
    from rota.wire.task import BulkCount

COUNT_TO = 1000  # more are "more than": nobody waits for an exact count of a million
FINAL = tuple(status for status in TaskStatus if status.is_final)
LIVE = tuple(status for status in TaskStatus if not status.is_final)
NOT_BEGUN = tuple(status for status in LIVE if status is not TaskStatus.PROCESSING)
Told = Callable[["BulkCount"], None]


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filter_options
@click.option("--reason", default="", help="Why, for the record.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@server_option
def cancel(ids: tuple[str, ...], reason: str, *, yes: bool, url: str | None, **given: Any) -> int:
    """End tasks, waiting or running.

    Those with these ids, or all that match the filters.
    """
    filters = _choose(ids, given)
    _check_statuses(filters, "cancel", fit=LIVE)
    with connect(url) as client:
        if ids:
            return _each(ids, lambda task_id: f"{task_id} {client.tasks.cancel(task_id, reason=reason).status}")
        filters.setdefault("status", LIVE)
        return _all(
            client,
            filters,
            verb="cancel",
            is_sure=yes,
            act=lambda told: client.tasks.cancel_all(reason=reason, progress=told, **filters),
        )


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("-p", "--payload", metavar="JSON|@FILE|-", help="Other input, of tasks by id; - reads standard input.")
@filter_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@server_option
def retry(ids: tuple[str, ...], *, payload: str | None, yes: bool, url: str | None, **given: Any) -> int:
    """Do the work of ended tasks again, as new tasks.

    Of those with these ids, whose new ids are printed, or of all that match the filters: also of those that were
    run again before, and of such reruns. With a payload of their own the new tasks do other work: the first ones
    need not have ended.
    """
    filters, content = _choose(ids, given), _read_other(payload, ids)
    _check_statuses(filters, "retry", fit=FINAL)
    with connect(url) as client:
        if ids:
            return _each(ids, lambda task_id: _run_again(client, task_id, payload=content))
        filters.setdefault("status", ("FAILED", "TIMEOUT"))
        return _all(
            client,
            filters,
            verb="retry",
            is_sure=yes,
            act=lambda told: client.tasks.retry_all(progress=told, **filters),
        )


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--to", required=True, metavar="0..9|normal|high|urgent", help="How urgent they shall be.")
@filter_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@server_option
def reprioritise(ids: tuple[str, ...], to: str, *, yes: bool, url: str | None, **given: Any) -> int:
    """Make tasks that wait more or less urgent.

    Those with these ids, or all that match the filters.
    """
    filters, level = _choose(ids, given), read_level("--to", to)
    _check_statuses(filters, "reprioritise", fit=NOT_BEGUN)
    with connect(url) as client:
        if ids:
            return _each(ids, lambda task_id: f"{task_id} {client.tasks.patch(task_id, priority=level).priority}")
        filters.setdefault("status", NOT_BEGUN)
        return _all(
            client,
            filters,
            verb="reprioritise",
            is_sure=yes,
            act=lambda told: client.tasks.reprioritise_all(level, progress=told, **filters),
        )


def _choose(ids: Sequence[str], given: dict[str, Any]) -> "TaskFilters":
    filters = read_filters(given)
    if bool(ids) == bool(filters):
        raise click.UsageError("Give ids or filters." if not ids else "Give ids or filters, not both.")
    return filters


def _check_statuses(filters: "TaskFilters", verb: str, *, fit: Sequence[TaskStatus]) -> None:
    """Only those states from which it can be done: nobody is to be asked about what would do nothing."""
    for status in filters.get("status", ()):
        if status not in fit:
            raise click.UsageError(f"{verb} is for tasks that are {', '.join(fit)}; {status} is not among them.")


def _read_other(payload: str | None, ids: Sequence[str]) -> Any:
    """The input that new tasks get in place of that of the first ones; None: the same."""
    if payload is None:
        return None
    if not ids:
        raise click.UsageError("--payload is for tasks by id; give their ids in place of filters.")
    content = read_payload(payload)
    if content is None:
        raise InvalidError("--payload", "is null, which is no input; without --payload the input is the same as before")
    return content


def _run_again(client: "Client", task_id: str, *, payload: Any) -> str:
    """The new id, alone where programs read it; who looks is told whose work it does."""
    made = client.tasks.retry(task_id, payload=payload).id
    changed = "" if payload is None else ", with other input"
    click.echo(f"task {safe(task_id)} is run again as task {made}{changed}", err=True)
    return made


def _each(ids: Sequence[str], act: Callable[[str], str]) -> int:
    """One after the other; what fails is told and does not keep the others back."""
    worst, first_bad = OK, ""
    for task_id in ids:
        try:
            click.echo(act(task_id))
        except RotaError as error:
            if len(ids) == 1 or exit_code_for(error) > CONFLICT:  # the server is away, or lets nobody in
                raise
            click.echo(f"error: {safe(str(error))}", err=True)
            worst, first_bad = max(worst, exit_code_for(error)), first_bad or task_id
    if first_bad:
        click.echo(f"try: rota task get {safe(first_bad)}", err=True)
    return worst


def _all(
    client: "Client", filters: "TaskFilters", *, verb: str, is_sure: bool, act: Callable[[Told], "BulkCount"]
) -> int:
    count = sum(1 for _ in islice(client.tasks.list(page_size=COUNT_TO, **filters), COUNT_TO + 1))
    if not count:
        click.echo(f"no task matches: {safe(describe(filters))}")
        return OK
    number = f"more than {COUNT_TO}" if count > COUNT_TO else str(count)
    if not is_sure:
        confirm(f"{verb} {number} tasks with {safe(describe(filters))}?")
    with _progress(verb, count) as told:
        done = act(told)
    click.echo(f"{done.changed} of {done.matched} tasks: {verb} done, {done.skipped} skipped")
    return OK


@contextmanager
def _progress(verb: str, count: int) -> Iterator[Told]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        row = bar.add_task(verb, total=None if count > COUNT_TO else count)
        yield lambda done: bar.update(row, completed=done.matched)
