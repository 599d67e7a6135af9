"""What may stand in the query of a request. A name that is not here is refused, as in a body."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from rota.application.chronicle import MOST_REIGNS
from rota.domain.audit import MAX_ACTION, MAX_ACTOR, MAX_OBJECT
from rota.domain.events import EventKind
from rota.domain.report import By
from rota.domain.task import TaskStatus

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000, description="The most items in one answer.")]
Cursor = Annotated[str, msgspec.Meta(max_length=256, description="`next_cursor` of the answer before.")]
Level = Annotated[int, msgspec.Meta(ge=0, le=9)]


class Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all of them."""


class ListQuery(Query):
    limit: Limit = 50
    cursor: Cursor | None = None


class GetTaskQuery(Query):
    wait: (
        Annotated[
            str,
            msgspec.Meta(
                pattern=r"^[0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m)?$",
                description="Answer when the task has ended, or after this time: `30`, `30s` or `1m`, at most 60 s.",
            ),
        ]
        | None
    ) = None


class ListTasksQuery(ListQuery):
    """Each filter that may be repeated is met by any of its values; all filters must be met."""

    status: list[TaskStatus] = []
    type: list[Annotated[str, msgspec.Meta(max_length=200)]] = []
    worker: Annotated[str, msgspec.Meta(description="The id of the worker that holds or held it.")] | None = None
    priority: list[Level] = []
    created_after: datetime | None = None
    created_before: datetime | None = None
    q: Annotated[str, msgspec.Meta(max_length=200, description="Text in the name or the type.")] = ""
    metadata: Annotated[
        Mapping[str, str], msgspec.Meta(description="`metadata.KEY=VALUE`: tasks with this fact; repeatable.")
    ] = {}
    full: Annotated[bool, msgspec.Meta(description="Payloads, results and errors whole, however large.")] = False


class LogsQuery(Query):
    limit: Limit = 1000
    cursor: Cursor | None = None


class PreviewQuery(Query):
    count: Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many targets before and after now.")] = 5
    after: Annotated[datetime, msgspec.Meta(description="Targets around this moment instead of now.")] | None = None


class ForecastQuery(Query):
    begin: Annotated[datetime, msgspec.Meta(description="From when; now by default.")] | None = None
    end: Annotated[datetime, msgspec.Meta(description="Until when; a day after `begin` by default.")] | None = None
    buckets: Annotated[int, msgspec.Meta(ge=1, le=1000, description="Pieces of the time to sum up.")] = 24
    type: list[Annotated[str, msgspec.Meta(max_length=200, description="Only these types.")]] = []


class ReportFormat(StrEnum):
    JSON = "json"
    CSV = "csv"


class ReportQuery(Query):
    """From and to are taken to whole hours or days of the zone."""

    begin: datetime | None = msgspec.field(name="from", default=None)
    end: datetime | None = msgspec.field(name="to", default=None)
    by: Annotated[By, msgspec.Meta(description="The pieces of the time.")] = By.DAY
    zone: Annotated[
        str, msgspec.Meta(max_length=64, description="An IANA time zone, whose hours and days they are.")
    ] = "UTC"
    task_type: list[Annotated[str, msgspec.Meta(max_length=200, description="Only these types.")]] = []
    format: Annotated[ReportFormat, msgspec.Meta(description="`csv` has the items alone.")] = ReportFormat.JSON


class ElectionsQuery(Query):
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_REIGNS, description="The most items in one answer.")] = 20


class ListAuditQuery(ListQuery):
    """All filters must be met, each by the whole text."""

    actor: Annotated[str, msgspec.Meta(max_length=MAX_ACTOR, description="The name of the token.")] = ""
    action: Annotated[str, msgspec.Meta(max_length=MAX_ACTION, description="Such as `task.cancel`.")] = ""
    object: Annotated[str, msgspec.Meta(max_length=MAX_OBJECT, description="The id or the type it was done to.")] = ""
    after: Annotated[datetime, msgspec.Meta(description="Entries from this moment on.")] | None = None
    before: Annotated[datetime, msgspec.Meta(description="Entries from before this moment.")] | None = None
    cluster: Annotated[
        bool, msgspec.Meta(description="What the cluster itself did, such as elections, instead of what people did.")
    ] = False


class RevisionsQuery(Query):
    limit: Limit = 20


class OccurrencesQuery(Query):
    limit: Limit = 50


class ListWorkersQuery(ListQuery):
    all: Annotated[bool, msgspec.Meta(description="Also those that have ended.")] = False


class EventsQuery(Query):
    type: list[Annotated[str, msgspec.Meta(max_length=200, description="Only tasks of these types.")]] = []
    kind: list[Annotated[EventKind, msgspec.Meta(description="Only these kinds, such as `task.completed`.")]] = []
