"""Reports, as JSON and as a table for spreadsheets."""

import csv
import io
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from rota.wire.base import Answer

RATE = "Of those that succeeded, failed or timed out, how many succeeded; null: there are none."
UNTIL = "Whatever ended before this moment is in the figures; what came after is being added. Null: nothing is yet."


class Durations(Answer):
    """How long something took; the percentiles are within 4.4 % of the exact ones."""

    count: int
    mean_seconds: float | None
    min_seconds: float | None
    max_seconds: float | None
    p50_seconds: float | None
    p95_seconds: float | None
    p99_seconds: float | None


class ReportFigures(Answer):
    """What happened: `submitted` counts when a task was made, all else when it ended."""

    submitted: int
    succeeded: int
    failed: int  # the quarantined among them
    timed_out: int
    cancelled: int
    quarantined: int  # failed because too many workers were lost running them
    attempts: int
    retries: int
    success_rate: Annotated[float, Meta(description=RATE)] | None
    run: Durations  # the last attempts of tasks, but for the cancelled
    wait: Durations  # from when a task was to start until it did, of those that needed one attempt


class ReportItem(ReportFigures):
    """One type in one hour or day; where nothing happened there is none."""

    start: datetime
    end: datetime
    type: str


class ReportType(ReportFigures):
    """One type in the whole time."""

    type: str


class Report(Answer):
    """What happened in a time that begins and ends with a whole hour or day of the zone."""

    begin: datetime
    end: datetime
    by: str
    zone: str
    complete_until: Annotated[datetime, Meta(description=UNTIL)] | None
    items: list[ReportItem]
    types: list[ReportType]
    totals: ReportFigures
    slowest: list[str]  # types, by the 95th percentile of their runs; ten at most
    most_failing: list[str]  # types, by how many of their tasks failed or timed out; ten at most


COUNTS = ("submitted", "succeeded", "failed", "timed_out", "cancelled", "quarantined", "attempts", "retries")
DURATIONS = ("mean", "min", "max", "p50", "p95", "p99")


def to_csv(report: Report) -> str:
    """The items, a line each (RFC 4180), under a line of names."""
    written = io.StringIO()
    lines = csv.writer(written)
    spreads = [f"{what}_{name}_seconds" for what in ("run", "wait") for name in DURATIONS]
    lines.writerow(["start", "end", "type", *COUNTS, "success_rate", *spreads])
    for item in report.items:
        durations = [getattr(one, f"{name}_seconds") for one in (item.run, item.wait) for name in DURATIONS]
        counts = [getattr(item, name) for name in COUNTS]
        cells = [item.start.isoformat(), item.end.isoformat(), item.type, *counts, item.success_rate, *durations]
        lines.writerow(["" if value is None else value for value in cells])
    return written.getvalue()
