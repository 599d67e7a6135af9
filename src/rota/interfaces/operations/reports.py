"""The operation that makes reports."""

from typing import Any

from rota.domain import report as domain
from rota.domain import rollup
from rota.domain.access import Role
from rota.domain.checks import check_name
from rota.interfaces.operations.operation import Call, Operation, Reply
from rota.interfaces.operations.queries import ReportFormat, ReportQuery
from rota.wire import report as wire

CSV = "text/csv"


async def get_report(call: Call[ReportQuery, None]) -> Reply:
    query = call.query
    types = frozenset(check_name("task_type", one) for one in query.task_type)
    wish = domain.ReportWish(by=query.by, begin=query.begin, end=query.end, zone=query.zone, types=types)
    answer = _answer(await call.services.report(call.tenant_id, wish), wish)
    if query.format is ReportFormat.JSON:
        return Reply(200, answer)
    name = f"rota-{query.by}-{answer.begin:%Y-%m-%d}.csv"
    return Reply(200, answer, {"content-disposition": f'attachment; filename="{name}"'}, text=wire.to_csv(answer))


def _answer(made: domain.Report, wish: domain.ReportWish) -> wire.Report:
    edges = made.layout.edges
    return wire.Report(
        begin=edges[0],
        end=edges[-1],
        by=wish.by,
        zone=wish.zone,
        complete_until=made.complete_until,
        items=[
            wire.ReportItem(start=one.start, end=one.end, type=one.type, **_figures(one.figures)) for one in made.items
        ],
        types=[wire.ReportType(type=name, **_figures(figures)) for name, figures in sorted(made.types.items())],
        totals=wire.ReportFigures(**_figures(made.totals)),
        slowest=made.slowest,
        most_failing=made.most_failing,
    )


def _figures(found: rollup.Figures) -> dict[str, Any]:
    counts = {name: getattr(found, name) for name in wire.COUNTS}
    return {**counts, "success_rate": found.success_rate, "run": _durations(found.run), "wait": _durations(found.wait)}


def _durations(spread: rollup.Spread) -> wire.Durations:
    return wire.Durations(
        count=spread.count,
        mean_seconds=_seconds(spread.mean_us),
        min_seconds=_seconds(spread.least_us if spread.count else None),
        max_seconds=_seconds(spread.most_us if spread.count else None),
        p50_seconds=_seconds(spread.percentile_us(0.5)),
        p95_seconds=_seconds(spread.percentile_us(0.95)),
        p99_seconds=_seconds(spread.percentile_us(0.99)),
    )


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else round(microseconds) / 1_000_000


OPERATIONS = (
    Operation(
        name="get_report",
        method="GET",
        path="/reports",
        summary="Say what happened by hour or day and by type: how many tasks ended how, and how long they took.",
        role=Role.VIEWER,
        handler=get_report,
        query=ReportQuery,
        answers={200: wire.Report},
        text_type=CSV,
    ),
)
