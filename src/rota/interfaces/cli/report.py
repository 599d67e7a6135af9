"""`rota report`: what happened, by type and by hour or day."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rota.interfaces.cli.connect import connect, server_option
from rota.interfaces.cli.output import Column, Table, output_option, print_rows, show_list, show_one
from rota.interfaces.cli.past import read_past
from rota.interfaces.cli.text import safe

if TYPE_CHECKING:
    from rota.wire.report import Report, ReportFigures

BLOCKS = "▁▂▃▄▅▆▇█"
WIDEST_BAR = 40
NAMED = 3  # types
EMPTY = "nothing happened in this time; tasks are in a report about twenty seconds after they end"


@click.command()
@click.option("--by", type=click.Choice(("day", "hour")), default="day", help="The pieces of the time.  [default: day]")
@click.option("--from", "begin", metavar="TIME", help="A time, or how long ago: 7d, 12h.  [default: 7d, or 1d by hour]")
@click.option("--to", "end", metavar="TIME", help="The same for the end.  [default: now]")
@click.option("--zone", default="UTC", help="Whose hours and days they are: Asia/Shanghai.  [default: UTC]")
@click.option("--type", "types", multiple=True, help="Only this type; may be repeated.")
@click.option("--csv", "is_csv", is_flag=True, help="Print the figures by type and piece of time for a spreadsheet.")
@output_option
@server_option
def report(output: str, *, url: str | None, is_csv: bool, **wanted: Any) -> None:
    """Say what happened in a time, by type and by day or hour.

    How many tasks ended how, how long they took, and how that went on.
    """
    from rota.wire.report import to_csv

    with connect(url) as client:
        times = {
            name: read_past(client, wanted[name], option=option)
            for name, option in (("begin", "--from"), ("end", "--to"))
            if wanted[name] is not None
        }
        found = client.report(**{**wanted, "begin": None, "end": None, **times})
    if is_csv:
        click.echo(to_csv(found).replace("\r\n", "\n"), nl=False)
    elif output in ("json", "yaml"):
        show_one(found, TYPES, output=output)
    elif output == "name":
        show_list(found.types, TYPES, output=output)
    else:
        _show(found, is_wide=output == "wide")


def _show(found: "Report", *, is_wide: bool) -> None:
    if not found.types:
        click.echo(EMPTY, err=True)
        return
    starts = sorted({item.start for item in found.items})
    ended = {(item.type, item.start): _ended(item) for item in found.items}
    trend = Column("TREND", lambda one: sparkline([ended.get((one.type, start), 0) for start in starts]))
    print_rows(found.types, Table([*TYPES.columns, trend], TYPES.name), is_wide=is_wide)
    click.echo()
    most = max(sum(ended.get((one.type, start), 0) for one in found.types) for start in starts)
    for start in starts:
        items = [item for item in found.items if item.start == start]
        number, failures = sum(map(_ended, items)), sum(item.failed + item.timed_out for item in items)
        bar = "█" * round(WIDEST_BAR * number / most) if most else ""
        trouble = f"  {failures} failed" if failures else ""
        click.echo(f"{_written(start, found):<17}{number:>10}  {bar}{trouble}")
    totals = found.totals
    click.echo(f"\n{_ended(totals)} ended, {_percent(totals)} succeeded, {totals.retries} retries")
    for title, names in (("slowest", found.slowest), ("most failing", found.most_failing)):
        if names:
            click.echo(f"{title}: {safe(', '.join(names[:NAMED]))}")


def _written(start: datetime, found: "Report") -> str:
    from zoneinfo import ZoneInfo

    local = start.astimezone(ZoneInfo(found.zone))
    return f"{local:%Y-%m-%d}" if found.by == "day" else f"{local:%Y-%m-%d %H:%M}"


def sparkline(numbers: Sequence[int]) -> str:
    """How numbers go up and down; nothing where there is none."""
    most = max(numbers, default=0)
    return "".join(" " if not one else BLOCKS[-(-one * len(BLOCKS) // most) - 1] for one in numbers)


def _ended(one: "ReportFigures") -> int:
    return one.succeeded + one.failed + one.timed_out + one.cancelled


def _percent(one: "ReportFigures") -> str:
    return "-" if one.success_rate is None else f"{one.success_rate:.1%}"


def _seconds(name: str) -> Column:
    def value(one: Any) -> str:
        taken = getattr(one.run, f"{name}_seconds")
        return "-" if taken is None else f"{taken:.3g}s"

    return Column(name.upper(), value, is_wide=name in ("mean", "max"))


TYPES = Table(
    (
        Column("TYPE", lambda one: one.type),
        Column("SUBMITTED", lambda one: one.submitted, is_wide=True),
        Column("SUCCEEDED", lambda one: one.succeeded),
        Column("FAILED", lambda one: one.failed + one.timed_out),
        Column("CANCELLED", lambda one: one.cancelled, is_wide=True),
        Column("RATE", _percent),
        Column("RETRIES", lambda one: one.retries),
        _seconds("mean"),
        _seconds("p50"),
        _seconds("p95"),
        _seconds("p99"),
        _seconds("max"),
    ),
    lambda one: str(one.type),
)
