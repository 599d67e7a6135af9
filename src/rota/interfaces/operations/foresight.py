"""Operations on many targets: what would fire, and making up for what did not."""

from datetime import timedelta

from rota.application import backfill as past
from rota.application import forecast as future
from rota.domain.access import Role
from rota.domain.errors import InvalidError
from rota.interfaces.operations import read
from rota.interfaces.operations.configs import ABSENT
from rota.interfaces.operations.operation import Call, NoQuery, Operation, Reply
from rota.interfaces.operations.queries import ForecastQuery
from rota.interfaces.operations.render import text_id
from rota.wire import schedule as wire

A_DAY = timedelta(days=1)


async def forecast_schedules(call: Call[ForecastQuery, None]) -> Reply:
    query = call.query
    begin = query.begin or call.services.node.time.now()
    span = future.Span(begin=begin, end=query.end or begin + A_DAY, buckets=query.buckets, types=frozenset(query.type))
    return Reply(200, _forecast(await call.services.forecast(call.tenant_id, span)))


async def backfill_schedule(call: Call[NoQuery, wire.BackfillSchedule]) -> Reply:
    body = call.body
    if body.order not in list(past.Order):
        raise InvalidError("order", f"must be one of {', '.join(past.Order)}")
    wanted = past.Range(
        begin=body.begin,
        end=body.end,
        name=body.name,
        order=past.Order(body.order),
        only_missing=body.only_missing,
        payload=body.payload,
        is_dry=body.dry_run,
    )
    place = None if body.cursor is None else past.Place(*read.time_cursor(body.cursor))
    key = (call.tenant_id, call.task_type)
    page = await call.services.backfill(key, wanted, place=place, limit=body.limit, actor=call.actor)
    return Reply(200, _backfill(body.name, page))


def _forecast(made: future.Forecast) -> wire.Forecast:
    span = made.span
    return wire.Forecast(
        begin=span.begin,
        end=span.end,
        runs=sum(bucket.runs for bucket in made.buckets),
        buckets=[
            wire.ForecastBucket(
                begin=span.begin + place * span.width,
                runs=bucket.runs,
                work_seconds=bucket.work.total_seconds(),
                busy=bucket.work / span.width,
                complete=made.is_known(place),
                unknown_runs=bucket.unknown,
            )
            for place, bucket in enumerate(made.buckets)
        ],
        types=[_type(load) for load in made.types],
        unforeseen=list(made.unforeseen),
        complete=made.is_complete,
        reasons=made.unforeseen,
        known_until=made.known_until,
        left_out=made.left_out,
    )


def _type(load: future.TypeLoad) -> wire.ForecastType:
    takes = None if load.run_takes is None else load.run_takes.total_seconds()
    return wire.ForecastType(
        type=load.type,
        runs=load.runs,
        first=load.first,
        last=load.last,
        run_seconds=takes,
        complete=load.is_complete,
    )


def _backfill(name: str, page: past.Page) -> wire.BackfillPage:
    items = [
        wire.BackfillItem(fire_at=one.fire_at, action=one.action, task_id=text_id(one.task_id), reason=one.reason)
        for one in page.made
    ]
    place = page.next_place
    following = None if place is None else read.write_cursor(f"{place.last.isoformat()} {place.total}")
    return wire.BackfillPage(name=name, total=page.total, items=items, next_cursor=following)


OPERATIONS = (
    Operation(
        name="forecast_schedules",
        method="GET",
        path="/schedules:forecast",
        summary="Say what the schedules would fire between two moments, and how much work that is.",
        role=Role.VIEWER,
        handler=forecast_schedules,
        query=ForecastQuery,
        answers={200: wire.Forecast},
        errors=(ABSENT,),
    ),
    Operation(
        name="backfill_schedule",
        method="POST",
        path="/task-configs/{type}:backfill",
        summary="Make the tasks of past targets of a schedule, page by page; a dry run says which they would be.",
        role=Role.OPERATOR,
        handler=backfill_schedule,
        body=wire.BackfillSchedule,
        answers={200: wire.BackfillPage},
        errors=(ABSENT, "schedule_not_found", "idempotency_mismatch"),
    ),
)
