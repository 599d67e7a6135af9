"""Tasks in SQL: adding, advancing, finding, counting, purging."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Select, TextClause, delete, func, select, text

from rota.application.ports.store import Added, Written
from rota.application.ports.system import Random
from rota.domain.audit import AuditEntry, check_subjects
from rota.domain.errors import IdTakenError
from rota.domain.ids import TaskId, TenantId, WorkerId, first_id_at
from rota.domain.paging import Page, TaskFilter, purge_limit
from rota.domain.submission import First, NewTask, RequestKey, find_owners
from rota.domain.task import PROCESSING, WAITING, LiveTask, Task, TaskStatus, Transition, check_one_step_each
from rota.infrastructure.database import schema
from rota.infrastructure.database.batch import Batch
from rota.infrastructure.database.codes import STATUS_CODES, STATUS_OF
from rota.infrastructure.database.database import SCAN_DEADLINE_S, Database, RunAgainError
from rota.infrastructure.instants import from_us, to_us
from rota.infrastructure.store.sql.alike import group_new, merged
from rota.infrastructure.store.sql.audit import add_audit
from rota.infrastructure.store.sql.listing import find_page
from rota.infrastructure.store.sql.log_rows import LOG_COLUMNS, creation_row
from rota.infrastructure.store.sql.task_rows import (
    NEW_LIVE_COLUMNS,
    SELECT_LIVE,
    SELECT_TASK,
    SPEC_COLUMNS,
    new_live_row,
    spec_row,
    to_live,
    to_task,
)
from rota.infrastructure.store.sql.transitions import TransitionWriter

COUNT_SHARDS = 16
FEW = 16  # rows that are read in a moment
LOG_SLICE = 20_000  # log rows that one statement may delete
PURGED_SHARD = COUNT_SHARDS  # what a purge takes off the others
_WAITING_CODES = ",".join(str(STATUS_CODES[status]) for status in sorted(WAITING))
_KEY_COLUMNS = ("tenant_id", "idempotency_key", "task_id", "digest")


class SqlTaskStore:
    def __init__(self, database: Database, random: Random) -> None:
        self._database = database
        self._random = random

    async def now(self) -> datetime:
        return from_us(await self._database.read(self._database.now_us))

    async def add(self, new: Sequence[NewTask]) -> list[Added]:
        if not new:
            return []
        # When some of them are there already, an earlier call got through after all.
        again = partial(self._add, new=new, expect_present=True)
        return await self._database.transact(partial(self._add, new=new), again=again)

    async def advance(self, steps: Sequence[Transition], *, audit: Sequence[AuditEntry] = ()) -> Written:
        if audit:
            check_subjects(audit, [step.task_id for step in steps])
        if not steps:
            return Written()
        check_one_step_each(steps)
        swift = partial(self._writer().write_swiftly, steps=steps, audit=audit)
        careful = partial(self._writer().write_carefully, steps=steps, audit=audit)
        return await self._database.transact(swift, again=careful)

    async def find(self, task_id: TaskId, tenant_id: TenantId) -> Task | None:
        task = (await self.load([task_id])).get(task_id)
        return task if task is not None and task.spec.tenant_id == tenant_id else None

    async def load(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        if not task_ids:
            return {}
        query = f"{SELECT_TASK} WHERE t.id {{ids}}"
        rows = await self._select_by_ids(query, task_ids)
        return {task.spec.id: task for task in map(to_task, rows)}

    async def find_by_keys(self, tenant_id: TenantId, keys: Collection[str]) -> dict[str, TaskId]:
        if not keys:
            return {}
        table = schema.task_key
        query = select(table.c.idempotency_key, table.c.task_id).where(
            table.c.tenant_id == tenant_id, table.c.idempotency_key.in_(keys)
        )
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return {key: TaskId(task_id) for key, task_id in rows}

    async def find_live(self, task_ids: Sequence[TaskId]) -> list[LiveTask]:
        if not task_ids:
            return []
        query = f"{SELECT_LIVE} WHERE l.id {{ids}}"
        rows = await self._select_by_ids(query, task_ids)
        found = {live.id: live for live in map(to_live, rows)}
        return [found[task_id] for task_id in task_ids if task_id in found]

    async def list_live(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        return await self._select_live("l.id > :after ORDER BY l.id", after=after or 0, limit=limit)

    async def list_due(self, limit: int) -> list[LiveTask]:
        where = f"l.status IN ({_WAITING_CODES}) AND l.due_us <= :now ORDER BY l.due_us, l.id"
        return await self._select_live(where, limit=limit)

    async def list_overdue(self, limit: int) -> list[LiveTask]:
        where = f"l.status = {STATUS_CODES[PROCESSING]} AND l.due_us <= :now ORDER BY l.due_us, l.id"
        return await self._select_live(where, limit=limit)

    async def list_held(self, worker_id: WorkerId) -> list[LiveTask]:
        where = f"l.status = {STATUS_CODES[PROCESSING]} AND l.worker_id = :worker ORDER BY l.id"
        return await self._select_live(where, worker=worker_id)

    async def list_running(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        where = f"l.status = {STATUS_CODES[PROCESSING]} AND l.id > :after ORDER BY l.id"
        return await self._select_live(where, after=after or 0, limit=limit)

    async def list_page(self, wanted: TaskFilter) -> Page[Task]:
        return await self._database.read(partial(find_page, wanted=wanted, clock=self._database.clock))

    async def count_by_status(self, tenant_id: TenantId | None) -> dict[TaskStatus, int]:
        live, ended = schema.task_live, schema.task_count
        alive = select(live.c.status, func.count()).group_by(live.c.status)
        over = select(ended.c.status, func.sum(ended.c.number)).group_by(ended.c.status)
        if tenant_id is not None:
            alive, over = alive.where(live.c.tenant_id == tenant_id), over.where(ended.c.tenant_id == tenant_id)

        def work(connection: Connection) -> dict[TaskStatus, int]:
            rows = [*connection.execute(alive), *connection.execute(over)]
            return {STATUS_OF[status]: int(number) for status, number in rows if number}

        return await self._database.read(work)

    async def count_ended(self, tenant_id: TenantId) -> dict[TaskStatus, int]:
        ended = schema.task_count
        wanted = (ended.c.tenant_id == tenant_id) & (ended.c.shard < PURGED_SHARD)
        query = select(ended.c.status, func.sum(ended.c.number)).where(wanted).group_by(ended.c.status)
        rows = await self._database.read(lambda connection: connection.execute(query).fetchall())
        return {STATUS_OF[status]: int(number) for status, number in rows}

    async def purge(self, *, completed_before: datetime, limit: int) -> int:
        oldest = _oldest_ended(completed_before, purge_limit(limit))
        rows = await self._database.read(partial(_count_log_rows, doomed=oldest), deadline_s=SCAN_DEADLINE_S)
        for task_id in [task_id for task_id, number in rows.items() if number > LOG_SLICE]:
            while await self._database.transact(partial(_cut_record, task_id=task_id)):
                pass
        purges = [partial(self._purge, portion=portion) for portion in _portions(rows)]
        return sum([await self._database.transact(purge) for purge in purges])

    def _writer(self) -> TransitionWriter:
        return TransitionWriter(self._database.bulk, shard=int(self._random.chance() * COUNT_SHARDS))

    def _add(self, connection: Connection, *, new: Sequence[NewTask], expect_present: bool = False) -> list[Added]:
        keys = self._claim_keys(connection, [item for item in new if item.key is not None])
        pairs = list(zip(new, find_owners(new, keys), strict=True))
        fresh = {owner: item for item, owner in pairs if owner == item.task.id}
        if expect_present:
            fresh = self._drop_present(connection, fresh)
        with self._database.bulk.together(connection, is_last=True) as batch:
            add_audit(batch, [entry for item in fresh.values() for entry in item.audit])
            insert_tasks(batch, [item.task for item in fresh.values()])
        return [Added(owner, is_repeat=owner != item.task.id) for item, owner in pairs]

    def _drop_present(self, connection: Connection, new: Mapping[TaskId, NewTask]) -> dict[TaskId, NewTask]:
        """The tasks that are not there yet. An id that stands for another task must never pass for a repeat."""
        if not new:
            return {}
        ids = list(new)
        rows = self._database.bulk.select_by_ids(connection, f"{SELECT_TASK} WHERE t.id {{ids}}", ids=ids)
        present = {task.id: task for task in map(to_task, rows)}
        for task_id, item in new.items():
            if task_id in present and present[task_id].spec != item.task.spec:
                raise IdTakenError(task_id)
        return {task_id: item for task_id, item in new.items() if task_id not in present}

    def _claim_keys(self, connection: Connection, keyed: Sequence[NewTask]) -> dict[RequestKey, First]:
        """Register the keys that are new and say, for each, which task and digest it stands for."""
        if not keyed:
            return {}
        table = schema.task_key
        rows = [(item.task.spec.tenant_id, item.key, item.task.id, item.digest) for item in keyed]
        rows.sort(key=itemgetter(0, 1))  # locks in order; of a key that comes twice, the first stays first
        self._database.bulk.insert_missing(connection, table, columns=_KEY_COLUMNS, rows=rows)
        found = connection.execute(
            select(table.c.tenant_id, table.c.idempotency_key, table.c.task_id, table.c.digest).where(
                table.c.tenant_id.in_({item.task.spec.tenant_id for item in keyed}),
                table.c.idempotency_key.in_([item.key for item in keyed]),
            )
        )
        firsts: dict[RequestKey, First] = {(tenant, key): (task_id, digest) for tenant, key, task_id, digest in found}
        if any(item.request_key not in firsts for item in keyed):
            raise RunAgainError  # a purge took the key since, and it is free again
        return firsts

    async def _select_by_ids(self, query: str, task_ids: Sequence[TaskId]) -> Sequence[Sequence[Any]]:
        bulk = self._database.bulk
        return await self._database.read(
            lambda link: bulk.select_by_ids(link, query, ids=task_ids), is_brief=len(task_ids) <= FEW
        )

    async def _select_live(self, where: str, *, limit: int | None = None, **parameters: int) -> list[LiveTask]:
        query = _live_where(where, limit)

        def work(connection: Connection) -> list[LiveTask]:
            bound = parameters | ({"now": self._database.now_us(connection)} if ":now" in where else {})
            return [to_live(row) for row in connection.execute(query, bound)]

        return await self._database.read(work, deadline_s=SCAN_DEADLINE_S)

    def _purge(self, connection: Connection, *, portion: Sequence[int]) -> int:
        task = schema.task
        query = select(task.c.id, task.c.tenant_id, task.c.status).where(task.c.id.in_(portion)).order_by(task.c.id)
        doomed = connection.execute(query.with_for_update(skip_locked=True)).fetchall()  # another may be purging too
        if not doomed:
            return 0
        ids = [row.id for row in doomed]
        for column in (schema.task_logs.c.task_id, schema.task_result.c.task_id, schema.task_key.c.task_id, task.c.id):
            connection.execute(delete(column.table).where(column.in_(ids)))
        ends = Counter((row.tenant_id, row.status) for row in doomed)
        bulk = self._database.bulk
        with bulk.together(connection) as batch:
            TransitionWriter(bulk, shard=PURGED_SHARD).count(batch, {key: -ends[key] for key in ends})
        return len(ids)


@lru_cache(maxsize=64)
def _live_where(where: str, limit: int | None) -> TextClause:
    """Made once: the leader asks some of these every second, always with the same limits."""
    return text(f"{SELECT_LIVE} WHERE {where}{'' if limit is None else f' LIMIT {limit:d}'}")


def _oldest_ended(completed_before: datetime, limit: int) -> Select[int]:
    task = schema.task
    query = select(task.c.id).where(
        task.c.id < first_id_at(completed_before), task.c.status != 0, task.c.completed_us < to_us(completed_before)
    )
    return query.order_by(task.c.id).limit(limit)


def _count_log_rows(connection: Connection, *, doomed: Select[int]) -> dict[int, int]:
    """How long the record of each of the tasks is, oldest first."""
    rows = dict.fromkeys(connection.scalars(doomed), 0)
    logs = schema.task_logs
    counted = select(logs.c.task_id, func.count()).where(logs.c.task_id.in_(rows)).group_by(logs.c.task_id)
    for task_id, number in connection.execute(counted) if rows else ():
        rows[task_id] = number
    return rows


def _portions(rows: Mapping[int, int]) -> Iterator[Sequence[int]]:
    """The tasks, so many at a time that what is left of their records can be deleted in one go."""
    portion: list[int] = []
    size = 0
    for task_id, number in rows.items():
        left = min(number, LOG_SLICE)
        if size + left > LOG_SLICE:
            yield portion
            portion, size = [], 0
        portion.append(task_id)
        size += left
    if portion:
        yield portion


def _cut_record(connection: Connection, *, task_id: int) -> bool:
    """Delete the first part of a long record; whether it is still long."""
    logs = schema.task_logs
    mine = logs.c.task_id == task_id
    behind = select(logs.c.seq).where(mine).order_by(logs.c.seq).offset(LOG_SLICE).limit(1)
    seq = connection.execute(behind).scalar()
    if seq is None:
        return False
    connection.execute(delete(logs).where(mine, logs.c.seq < seq))
    return True


def insert_tasks(batch: Batch, tasks: Sequence[Task]) -> None:
    """Insert new tasks with their live rows and first log entries."""
    if tasks:
        batch.insert(schema.task, columns=SPEC_COLUMNS, rows=[spec_row(task) for task in tasks])
        alike = group_new(tasks)
        lives = merged([(new_live_row(task.state)[1:], ids) for task, ids in alike])
        batch.insert_alike(schema.task_live, columns=NEW_LIVE_COLUMNS, groups=lives)
        records = merged([(creation_row(task)[1:], ids) for task, ids in alike])
        batch.insert_alike(schema.task_logs, columns=LOG_COLUMNS, groups=records)
