"""Finding tasks by filter. Each plan starts from the table that makes the wanted states cheap to find.

Only states have an index: one for each filter would burden every task (ADR-0041). So what is wanted is looked for in
slices of what there is, the newest first. A page that is not full after the last one, or when the next would take too
long at the pace of the one before, says where to go on: what is on disk alone is read fifty times as slowly as what is
in memory (ADR-0044).
"""

from dataclasses import replace
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from rota.application.ports.system import Clock
from rota.domain.ids import TaskId, first_id_at
from rota.domain.paging import Page, TaskFilter
from rota.domain.task import CANCELLED, FAILED, LIVE, TIMEOUT, Task
from rota.infrastructure.database.codes import STATUS_CODES
from rota.infrastructure.database.schema import task, task_live, task_result
from rota.infrastructure.store.sql.task_rows import SPEC_COLUMNS, STATE_COLUMNS, to_task
from rota.infrastructure.store.sql.text_search import contains

UNSUCCESSFUL = frozenset({FAILED, TIMEOUT, CANCELLED})  # these always have a row in task_result
_COLUMNS = (
    *(task.c[name] for name in SPEC_COLUMNS),
    *(func.coalesce(task_live.c[name], task.c[name]) for name in STATE_COLUMNS),
    func.coalesce(task_live.c.due_us, task.c.completed_us),
    task_live.c.last_lost_us,
    task_live.c.prior_lost_us,
    task.c.completed_us,
    task.c.moved_due_us,
    task_result.c.result_json,
    task_result.c.error_json,
)


SLICES = (2_000, *[4_000] * 24)  # rows: the first answers most questions; one that is on disk alone is soon done, too
MOST_SECONDS = 0.7  # that all of them may take together, as far as the pace of one tells that of the next


def find_page(connection: Connection, *, wanted: TaskFilter, clock: Clock) -> Page[Task]:
    """A page and one row more, which tells whether another page follows."""
    rows: list[Any] = []
    began = looked = clock.monotonic()
    for size, following in zip(SLICES, (*SLICES[1:], None), strict=True):
        floor = _find_floor(connection, wanted, size=size)
        query = _select(wanted, floor).limit(wanted.limit + 1 - len(rows))
        rows += connection.execute(query).fetchall()
        if len(rows) > wanted.limit or floor is None:
            tasks = tuple(map(to_task, rows[: wanted.limit]))
            return Page(tasks, next_before=tasks[-1].id if len(rows) > wanted.limit else None)
        wanted = replace(wanted, before=TaskId(floor))
        now = clock.monotonic()
        if following is None or now - began + (now - looked) * following / size > MOST_SECONDS:
            break
        looked = now
    return Page(tuple(map(to_task, rows)), next_before=wanted.before, is_short=True)


def _select(wanted: TaskFilter, floor: int | None) -> Select[Any]:
    source, key = _source(wanted)
    conditions = [task.c.tenant_id == wanted.tenant_id, *_key_range(wanted, key), *_conditions(wanted)]
    if floor is not None:
        conditions.append(key >= floor)
    return select(*_COLUMNS).select_from(source).where(and_(*conditions)).order_by(key.desc())


def _find_floor(connection: Connection, wanted: TaskFilter, *, size: int) -> int | None:
    """Where the next slice ends: the id of its last row; None when there are no more than that.

    Of failures it is asked for each state by itself, for then the index has the answer."""
    _, key = _source(wanted)
    rows = select(key).where(*_key_range(wanted, key)).order_by(key.desc()).offset(size - 1).limit(1)
    codes = [STATUS_CODES[status] for status in wanted.statuses] if _is_of_failures(wanted) else []
    queries = [rows.where(task_result.c.status == code) for code in codes] or [rows]
    floors = [connection.execute(query).scalar() for query in queries]
    return max((floor for floor in floors if floor is not None), default=None)


def _is_of_failures(wanted: TaskFilter) -> bool:
    return bool(wanted.statuses) and wanted.statuses <= UNSUCCESSFUL


def _source(wanted: TaskFilter) -> tuple[Any, ColumnElement[int]]:
    live = task_live.c.id == task.c.id
    result = task_result.c.task_id == task.c.id
    if wanted.statuses and wanted.statuses <= LIVE:
        return task_live.join(task, live).outerjoin(task_result, result), task_live.c.id
    if _is_of_failures(wanted):
        return task_result.join(task, result).outerjoin(task_live, live), task_result.c.task_id
    return task.outerjoin(task_live, live).outerjoin(task_result, result), task.c.id


def _key_range(wanted: TaskFilter, key: ColumnElement[int]) -> list[ColumnElement[bool]]:
    conditions = []
    if wanted.before is not None:
        conditions.append(key < wanted.before)
    if wanted.created_after is not None:
        conditions.append(key >= first_id_at(wanted.created_after))
    if wanted.created_before is not None:
        conditions.append(key < first_id_at(wanted.created_before))
    return conditions


def _conditions(wanted: TaskFilter) -> list[ColumnElement[bool]]:
    conditions = []
    if wanted.statuses:
        conditions.append(_status_condition(wanted))
    if wanted.types:
        conditions.append(task.c.type.in_(sorted(wanted.types)))
    if wanted.priorities:
        conditions.append(task.c.priority.in_(sorted(wanted.priorities)))
    if wanted.worker_id is not None:
        conditions.append(or_(task_live.c.worker_id == wanted.worker_id, task.c.worker_id == wanted.worker_id))
    if wanted.text:
        conditions.append(or_(contains(task.c.name, wanted.text), contains(task.c.type, wanted.text)))
    # Keys and values are stored as compact JSON, where a quote inside a text is escaped: this finds whole pairs only.
    for key, value in wanted.metadata.items():
        pair = msgspec.json.encode({key: value}).decode()[1:-1]
        conditions.append(contains(task.c.metadata_json, pair))
    return conditions


def _status_condition(wanted: TaskFilter) -> ColumnElement[bool]:
    live = [STATUS_CODES[status] for status in wanted.statuses & LIVE]
    ended = [STATUS_CODES[status] for status in wanted.statuses - LIVE]
    if wanted.statuses <= UNSUCCESSFUL:
        return and_(task_result.c.status.in_(ended), task.c.status.in_(ended))
    return or_(task_live.c.status.in_(live), task.c.status.in_(ended))
