"""`rota bench`: how many tasks this installation carries."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from rota.domain.durations import parse_duration
from rota.domain.errors import RotaError
from rota.domain.worker import MAX_CAPACITY
from rota.interfaces.cli.bench_left import CREATED, ENDED, Tell, count_tasks
from rota.interfaces.cli.bench_run import LONE, Figures, GaveUpError, NobodyError, Run, Spread, Unfinished
from rota.interfaces.cli.connect import ALONE, choose_place, connect, server_option
from rota.interfaces.cli.errors import OK, CheckFailedError
from rota.interfaces.cli.options import WholeNumber
from rota.interfaces.cli.output import Table, output_option, show_one

if TYPE_CHECKING:
    from rota.client.blocking import Client

MOST_TASKS = 100_000
MOST_BATCH = 1_000
MANY = 300  # tasks, of which fewer say nothing of the queue
GIVE_UP = "When to give up; cancelling the rest comes on top.  [default: 5m]"
ENOUGH = 500  # places of a worker, for tasks that do nothing
SAMPLES = "rota.sdk.samples"
SERVER = f"rota server --app {SAMPLES}"
FIGURES = Table((), name=lambda figures: f"{figures.completed_per_second:.0f}")


@click.command()
@click.option("-n", "--tasks", type=WholeNumber(1, MOST_TASKS), default=10_000, help="How many.  [default: 10000]")
@click.option("--batch", type=WholeNumber(1, MOST_BATCH), default=500, help="Created at once.  [default: 500]")
@click.option("--timeout", metavar="DURATION", default="5m", help=GIVE_UP)
@output_option
@server_option
def bench(*, tasks: int, batch: int, timeout: str, output: str, url: str | None) -> int:
    """Measure the installation with tasks that do nothing.

    A worker must run sample_noop, as a plain rota dev does: rota worker --app rota.sdk.samples. The tasks stay in the
    history like any others; Ctrl-C cancels those that have not run, a second one leaves them.
    """
    from rota.client.exchange import UnreachableError
    from rota.client.sync_wire import real_system

    most = parse_duration("--timeout", timeout)
    with connect(url) as client, _progress(tasks) as tell:
        try:
            figures = Run(client, real_system().clock, tasks, batch, most, tell)()
        except NobodyError as error:
            raise _advise(str(error), client, url=url) from error
        except GaveUpError as error:
            raise _give_up(error.found, tasks, batch=batch, timeout=timeout) from None
        except UnreachableError as error:
            if url:  # another server is not what was to be measured
                error.fix = f"rota doctor --url {quote(url)}"
            raise
    if output in ("table", "wide"):
        click.echo("\n".join(_lines(figures)))
    else:
        show_one(figures, FIGURES, output=output)
    _check(figures, tasks)
    return OK


def _give_up(found: Unfinished, wanted: int, *, batch: int, timeout: str) -> CheckFailedError:
    """What there was by then; and a run that fits into half of the time, if anything ended."""
    begin = f"gave up after {timeout}"
    if not found.created:
        told = (
            f"{found.lone} of the {LONE} that run one after the other had ended, and none of the {count_tasks(wanted)}"
        )
        return CheckFailedError(f"{begin}: {told} was created", fix="rota top")
    created = f"{found.created:,} of {count_tasks(wanted)} {'was' if found.created == 1 else 'were'} created"
    if found.ended is None:
        return CheckFailedError(f"{begin}: {created}; the server does not say how many have ended", fix="rota top")
    rest = f"{found.created - found.ended:,} had not"
    if not found.ended:
        return CheckFailedError(f"{begin}: {created}, and none had ended", fix="rota top")
    rate = f"{found.ended / max(found.seconds, 1e-6):,.1f} tasks/s over {found.seconds:,.1f} s"
    told = f"{created}; {found.ended:,} had ended ({rate}, from the first create to the last result), {rest}"
    less = max(found.ended // 2, 1)
    return CheckFailedError(f"{begin}: {told}", fix=f"rota bench -n {less} --timeout {quote(timeout)} --batch {batch}")


def _check(figures: Figures, wanted: int) -> None:
    """Whether all of the tasks are on record, and succeeded."""
    if figures.tasks < wanted:
        problem = f"{wanted - figures.tasks} of {count_tasks(wanted)} are not on record, and not in these figures"
        raise CheckFailedError(problem, fix="rota task ls --type sample_noop")
    if figures.succeeded < wanted:
        problem = f"{wanted - figures.succeeded} of {count_tasks(wanted)} did not succeed"
        fix = "rota task ls --type sample_noop --status failed --status timeout --status cancelled"
        raise CheckFailedError(problem, fix=fix)


def _advise(problem: str, client: "Client", *, url: str | None) -> CheckFailedError:
    """How to get a worker that runs the tasks; one cannot join an installation that is a single process."""
    from rota.client.place import find_served

    if not _is_one_process(client):
        told = f"{problem}; a worker with the samples is needed, with the settings (--config) of that server"
        return CheckFailedError(told, fix=f"rota worker --app {SAMPLES}")
    place = choose_place(url, timeout="1s")
    which = "the rota dev of this folder" if place.url == find_served() else f"the server at {place.url}"
    told = f"{problem}; {which} is one process, which no other worker can join: end it, start one with the samples"
    told = f"{told} in place of your tasks, and go back to those when it is measured"
    port = urlsplit(place.url).port
    return CheckFailedError(told, fix=f"rota dev {SAMPLES} --port {port}" if place.is_local and port else SERVER)


def _is_one_process(client: "Client") -> bool:
    try:
        return client.cluster().coordinator == ALONE
    except RotaError:  # what is missing is told in any case
        return False


def _lines(figures: Figures) -> list[str]:
    many, alone = f"{figures.tasks:,} in batches of {figures.batch}", "one after the other"
    queue = ": most of it is waiting in the queue" if figures.tasks >= MANY else ""
    return [
        f"created           {figures.created_per_second:10,.0f} tasks/s   by this client, {many}",
        f"completed         {figures.completed_per_second:10,.0f} tasks/s   from the first create to the last result",
        *_others(figures),
        *_crew(figures),
        f"create to start   {_spread(figures.lone_start)}   {alone}",
        f"create to result  {_spread(figures.lone_result)}   {alone}",
        f"create to start   {_spread(figures.start)}   {many}{queue}",
        f"create to result  {_spread(figures.result)}   {many}",
    ]


def _others(figures: Figures) -> list[str]:
    if not figures.others:
        return []
    told = "tasks stood in the queues or ran before this, and had their share"
    return [f"others            {figures.others:10,d}           {told}"]


def _crew(figures: Figures) -> list[str]:
    """Few places are what limits most installations, and no rate shows it; so it is said where it is so."""
    if figures.capacity is None:
        return []
    held = f"hold {figures.capacity:,} tasks at once (worker.capacity)"
    return [f"workers           {figures.workers:10,d}           {held}", *_limit(figures, figures.capacity)]


def _limit(figures: Figures, capacity: int) -> list[str]:
    if not figures.limited_by_capacity:
        return []
    each = capacity // max(figures.workers, 1)
    more = min(max(ENOUGH, 2 * each), MAX_CAPACITY)
    advice = f"start your workers with --set worker.capacity={more}" if more > each else "start more workers"
    told = "that is the limit: tasks waited for a place, and then took about as long as one alone"
    return [f"{'':39s}{told}", f"{'':39s}{advice}, and measure again"]


def _spread(spread: Spread) -> str:
    p50, p99 = (wait.total_seconds() * 1e3 for wait in (spread.p50, spread.p99))
    return f"p50 {p50:9,.1f} ms   p99 {p99:9,.1f} ms"


@contextmanager
def _progress(tasks: int) -> Iterator[Tell]:
    """A bar for each of what there is, where somebody looks."""
    if not sys.stderr.isatty():
        yield lambda _what, _number: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    ahead = TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn()
    times = TimeElapsedColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn()
    with Progress(*ahead, *times, console=Console(stderr=True), transient=True) as shown:
        bars = {what: shown.add_task(what, total=tasks, rate="") for what in (CREATED, ENDED)}

        def tell(what: str, number: int) -> None:
            if what not in bars:
                bars[what] = shown.add_task(what, total=None, rate="")
            shown.update(bars[what], completed=number)
            speed = shown.tasks[bars[what]].finished_speed or shown.tasks[bars[what]].speed
            shown.update(bars[what], rate=f"{speed:,.0f}/s" if speed else "")

        yield tell
