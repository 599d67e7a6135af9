"""`rota schedule`: when types fire, and what became of it."""

from collections import Counter
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from rota.domain.cron.recurrence import DstGap, DstOverlap
from rota.domain.errors import InvalidError
from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.filters import in_options, read_time
from rota.interfaces.cli.options import WholeNumber
from rota.interfaces.cli.output import output_option, show_list, show_one
from rota.interfaces.cli.past import NOW, read_past_in
from rota.interfaces.cli.schedule_list import SCHEDULES
from rota.interfaces.cli.schedule_preview import read_schedule, show_preview
from rota.interfaces.cli.tables import FORECAST_TYPES, FORECASTS, occurrences_in
from rota.interfaces.cli.task_submit import read_payload
from rota.interfaces.cli.text import moment, on_clock, safe

if TYPE_CHECKING:
    from rota.client.blocking import Client
    from rota.client.schedule_calls import BackfillOptions
    from rota.wire.schedule import Forecast

GAPS, OVERLAPS = (click.Choice([one.value for one in kind]) for kind in (DstGap, DstOverlap))
TYPES_SHOWN = 10  # of a forecast
TIMES = {"begin": "--from", "end": "--to"}
count_option = click.option(
    "-n", "--count", type=WholeNumber(1, 1000), default=5, help="Targets before and after now.  [default: 5]"
)

from_option = click.option("--from", "after", metavar="TIME", help="Around this time instead of now.")


@click.group()
def schedule() -> None:
    """See when types fire, and what became of it."""


@schedule.command()
@output_option
@watch_option
@server_option
def ls(output: str, *, watch: bool, url: str | None) -> None:
    """List the schedules: when each fires next."""
    with connect(url) as client:
        repeat(
            lambda: show_list((one for one in client.configs.list() if one.schedule), SCHEDULES, output=output),
            watch=watch,
        )


@schedule.command()
@click.argument("expression", metavar="[CRON]", required=False)
@click.option(
    "-s", "--schedule", "whole", metavar="JSON|@FILE|-", help="A whole schedule, or a definition with one; YAML, too."
)
@click.option("--zone", help="Whose clock it means, such as Asia/Shanghai.  [default: UTC]")
@click.option("--dialect", type=click.Choice(["vixie", "quartz"]), help="How it is written.  [default: vixie]")
@click.option("--dst-gap", type=GAPS, help="For times that clocks skip.  [default: run_after]")
@click.option("--dst-overlap", type=OVERLAPS, help="For times that come twice.  [default: first]")
@click.option("--type", "task_type", default="", help="The type of the tasks, from which H is derived.")
@from_option
@count_option
@output_option
@server_option
def preview(expression: str | None, *, output: str, url: str | None, **given: Any) -> None:
    """Say in words and in times when a schedule fires.

    Nothing is stored.
    """
    wanted, named = read_schedule(given["whole"])
    options = {key: given[key] for key in ("zone", "dialect", "dst_gap", "dst_overlap")}
    wanted |= {key: value for key, value in {"cron": expression, **options}.items() if value is not None}
    if not wanted:
        raise InvalidError("CRON", "is missing: give an expression, or --schedule")
    after, task_type = read_time("--from", given["after"]), given["task_type"] or named
    with connect(url) as client:
        found = client.schedules.preview(wanted, type=task_type, count=given["count"], after=after)
    show_preview(found, output, after=after)


@schedule.command(name="next")
@click.argument("task_type", metavar="TYPE")
@from_option
@count_option
@output_option
@server_option
def next_fires(task_type: str, *, count: int, after: str | None, output: str, url: str | None) -> None:
    """Say in words and in times when a type fires."""
    begin = read_time("--from", after)
    with connect(url) as client:
        found = client.schedules.get(task_type, count=count, after=begin)
    show_preview(found, output, after=begin)
    if output in ("table", "wide") and found.recent:
        click.echo(safe(f"what became of those that have passed: rota schedule occurrences {task_type}"))


@schedule.command()
@click.argument("task_type", metavar="TYPE")
@click.option("--note", default="", help="Why, for whoever finds it paused.")
@server_option
def pause(task_type: str, *, note: str, url: str | None) -> None:
    """Let the schedule of a type fire nothing.

    Tasks of the type are accepted as before.
    """
    with connect(url) as client:
        click.echo(f"the schedule of {client.schedules.pause(task_type, note=note).type} is paused")


@schedule.command()
@click.argument("task_type", metavar="TYPE")
@server_option
def resume(task_type: str, *, url: str | None) -> None:
    """Let the schedule of a type fire again, whoever paused it."""
    with connect(url) as client:
        click.echo(f"the schedule of {client.schedules.resume(task_type).type} fires again")


@schedule.command()
@click.argument("task_type", metavar="TYPE")
@click.option("--limit", type=WholeNumber(1, 1000), default=50, help="The most to show.  [default: 50]")
@output_option
@watch_option
@server_option
def occurrences(task_type: str, *, limit: int, output: str, watch: bool, url: str | None) -> None:
    """List what became of the targets of a type, newest first.

    They have fired, or were skipped, and why.
    """
    with connect(url) as client:
        table = occurrences_in(_find_zone(client, task_type))
        repeat(
            lambda: show_list(client.schedules.occurrences(task_type, limit=limit), table, output=output),
            watch=watch,
        )


def _find_zone(client: "Client", task_type: str) -> ZoneInfo:
    """On whose clock the times of a type are shown."""
    return ZoneInfo((client.configs.get(task_type).schedule or {}).get("zone", "UTC"))


@schedule.command()
@click.option("--from", "begin", metavar="TIME", help="The first moment.  [default: now]")
@click.option("--to", "end", metavar="TIME", help="The first that is not in it.  [default: a day later]")
@click.option("--buckets", type=WholeNumber(1, 1000), default=24, help="Pieces of the time.  [default: 24]")
@click.option("--type", "types", multiple=True, help="Only this type; may be repeated.")
@output_option
@server_option
def forecast(begin: str | None, end: str | None, *, output: str, url: str | None, **given: Any) -> None:
    """Say what would fire in a time, and how much work it is."""
    times = read_time("--from", begin), read_time("--to", end)
    with connect(url) as client, in_options(TIMES):
        found = client.schedules.forecast(*times, buckets=given["buckets"], types=given["types"])
    if output in ("json", "yaml"):
        show_one(found, FORECASTS, output=output)
        return
    show_list(iter(found.buckets), FORECASTS, output=output)
    least = "" if found.complete else "at least "
    click.echo(f"{least}{found.runs} runs of {len(found.types)} types")
    if output != "name":
        _show_types(found, most=len(found.types) if output == "wide" else TYPES_SHOWN)
    for name in found.unforeseen:
        click.echo(safe(f"not foreseen: {name}: {found.reasons.get(name, 'nobody knows when')}"))
    if not found.complete:
        _tell_gaps(found)


def _show_types(found: "Forecast", *, most: int) -> None:
    """Those that fire most."""
    shown = sorted(found.types, key=lambda one: -one.runs)[:most]
    if shown:
        show_list(shown, FORECAST_TYPES, output="table")
    if len(shown) < len(found.types):
        click.echo(f"and {len(found.types) - len(shown)} more types: -o wide lists all")


def _tell_gaps(found: "Forecast") -> None:
    if found.known_until is not None:
        cut = ", ".join(one.type for one in found.types if not one.complete)
        click.echo(safe(f"from {moment(found.known_until)} on runs are missing of: {cut}"), err=True)
    if found.left_out:
        click.echo(safe(f"not looked at: {', '.join(found.left_out)}"), err=True)
    click.echo("there is more than this: ask for a shorter time, or for single types", err=True)


@schedule.command()
@click.argument("task_type", metavar="TYPE")
@click.option(
    "--from", "begin", metavar="TIME", required=True, help="2026-01-31T09:00:00Z, 2026-01-31, or how long ago: 7d."
)
@click.option("--to", "end", metavar="TIME", default=NOW, help="The first moment that is not in it.  [default: now]")
@click.option("--concurrency", type=WholeNumber(1, 1000), default=10, help="Runs at once.  [default: 10]")
@click.option("--newest-first", is_flag=True, help="Begin at the end.")
@click.option("--all", "is_all", is_flag=True, help="Also what fired in its time.")
@click.option("--name", default="backfill", help="Each target runs once under it.  [default: backfill]")
@click.option("-p", "--payload", metavar="JSON|@FILE|-", help="Instead of the schedule's own.")
@click.option("--dry-run", is_flag=True, help="Only say what would run.")
@server_option
def backfill(task_type: str, *, begin: str, end: str, url: str | None, **given: Any) -> None:
    """Make up for the targets of a past time.

    Asked again, it goes on where it was.
    """
    options: BackfillOptions = {
        "name": given["name"],
        "order": "newest" if given["newest_first"] else "oldest",
        "only_missing": not given["is_all"],
        "payload": read_payload(given["payload"]),
        "dry_run": given["dry_run"],
    }
    ends = (("begin", begin), ("end", end))
    count: Counter[str] = Counter()
    with connect(url) as client, in_options(TIMES):
        zone, most = _find_zone(client, task_type), given["concurrency"]
        first, last = (read_past_in(zone, text, client=client, option=TIMES[name]) for name, text in ends)
        for item in client.schedules.backfill(task_type, first, end=last, concurrency=most, **options):
            count[item.action] += 1
            click.echo(safe(f"{on_clock(item.fire_at, zone)}  {item.action}  {item.task_id or item.reason}".rstrip()))
    runs = "would run" if given["dry_run"] else "run"
    before = f"{count['repeat']} ran before under the name {given['name']!r}"
    click.echo(safe(f"{count['run']} {runs}, {before}, {count['skip']} skipped"))
