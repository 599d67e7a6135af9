"""`rota schedule`: when types fire, and what became of it."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.filters import read_moment, read_time
from rota.interfaces.cli.options import WholeNumber
from rota.interfaces.cli.output import output_option, show_list, show_one
from rota.interfaces.cli.tables import FORECASTS, OCCURRENCES, PREVIEWS
from rota.interfaces.cli.task_submit import read_payload
from rota.interfaces.cli.text import moment, safe

if TYPE_CHECKING:
    from rota.client.schedule_calls import BackfillOptions
    from rota.wire.schedule import CalendarEffect, SchedulePreview

count_option = click.option(
    "-n", "--count", type=WholeNumber(1, 1000), default=5, help="Targets before and after now.  [default: 5]"
)


@click.group()
def schedule() -> None:
    """See when types fire, and what became of it."""


@schedule.command()
@click.argument("expression", metavar="CRON")
@click.option("--zone", default="UTC", help="Whose clock it means, such as Asia/Shanghai.  [default: UTC]")
@click.option(
    "--dialect", type=click.Choice(["vixie", "quartz"]), default="vixie", help="How it is written.  [default: vixie]"
)
@click.option("--type", "task_type", default="", help="The type of the tasks, from which H is derived.")
@count_option
@output_option
@server_option
def preview(expression: str, *, count: int, output: str, url: str | None, **given: str) -> None:
    """Say in words and in times when an expression fires.

    Nothing is stored.
    """
    wanted = {"cron": expression, "zone": given["zone"], "dialect": given["dialect"]}
    with connect(url) as client:
        _show(client.schedules.preview(wanted, type=given["task_type"], count=count), output)


@schedule.command(name="next")
@click.argument("task_type", metavar="TYPE")
@count_option
@output_option
@server_option
def next_fires(task_type: str, *, count: int, output: str, url: str | None) -> None:
    """Say in words and in times when a type fires."""
    with connect(url) as client:
        _show(client.schedules.get(task_type, count=count), output)


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
        repeat(
            lambda: show_list(client.schedules.occurrences(task_type, limit=limit), OCCURRENCES, output=output),
            watch=watch,
        )


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
    with connect(url) as client:
        found = client.schedules.forecast(*times, buckets=given["buckets"], types=given["types"])
    if output in ("json", "yaml"):
        show_one(found, FORECASTS, output=output)
        return
    show_list(iter(found.buckets), FORECASTS, output=output)
    click.echo(f"{found.runs} runs of {len(found.types)} types")
    if found.unforeseen:
        click.echo(safe(f"not foreseen: {', '.join(found.unforeseen)}"))
    if not found.complete:
        click.echo("there is more than this: ask for a shorter time, or for single types", err=True)


@schedule.command()
@click.argument("task_type", metavar="TYPE")
@click.option("--from", "begin", metavar="TIME", required=True, help="Such as 2026-01-31T09:00:00Z.")
@click.option("--to", "end", metavar="TIME", required=True, help="The first moment that is not in it.")
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
    first, last = read_moment("--from", begin), read_moment("--to", end)
    options: BackfillOptions = {
        "name": given["name"],
        "order": "newest" if given["newest_first"] else "oldest",
        "only_missing": not given["is_all"],
        "payload": read_payload(given["payload"]),
        "dry_run": given["dry_run"],
    }
    count: Counter[str] = Counter()
    with connect(url) as client:
        most = given["concurrency"]
        for item in client.schedules.backfill(task_type, first, end=last, concurrency=most, **options):
            count[item.action] += 1
            click.echo(safe(f"{moment(item.fire_at)}  {item.action}  {item.task_id or item.reason}".rstrip()))
    verb = "would run" if given["dry_run"] else "run"
    click.echo(f"{count['run']} {verb}, {count['repeat']} ran before under this name, {count['skip']} skipped")


def _show(found: "SchedulePreview", output: str) -> None:
    if output in ("json", "yaml", "name"):
        show_one(found, PREVIEWS, output=output)
        return
    click.echo(safe(found.in_english))
    click.echo(safe(found.in_chinese))
    effects = {effect.fire_at: _spell(effect) for effect in found.effects}
    for at in reversed(found.recent):
        click.echo(f"  {moment(at)}  past{effects.get(at, '')}")
    for at in found.upcoming:
        click.echo(f"  {moment(at)}{effects.get(at, '')}")


def _spell(effect: "CalendarEffect") -> str:
    origin = "" if effect.moved_from is None else f" from {moment(effect.moved_from)}"
    return safe(f"  {effect.effect}{origin}: {effect.detail}")
