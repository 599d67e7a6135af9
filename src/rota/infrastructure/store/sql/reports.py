"""What reports are made of, in SQL.

Tasks are read in the order of their ids, which is that of their rows: each is read once, and once more if it lived when
it was passed. No index is needed that they would have to pay for (ADR-0040).
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, or_, select, text, update

from rota.application.ports.report import MOST_ROLLUPS, Place, Rollup, RollupRange
from rota.domain.ids import TaskId, TenantId
from rota.domain.paging import purge_limit
from rota.domain.rollup import POISON, Figures, Grain, LeftBehind, Progress, RollupKey, Step, TaskFacts
from rota.domain.task import FAILED
from rota.infrastructure.database import schema
from rota.infrastructure.database.codes import STATUS_CODES, STATUS_OF
from rota.infrastructure.database.database import SCAN_DEADLINE_S, Database
from rota.infrastructure.instants import find_us, to_us
from rota.infrastructure.store.report_documents import read_figures, read_ids, write_figures, write_ids

ROW = 1  # the one of the progress
KEYS_AT_ONCE = 200  # in one condition
_FACTS = (
    "SELECT id, tenant_id, type, status, created_us, scheduled_us, moved_due_us, started_us, completed_us, attempt,"
    " retry_count FROM task"
)
_PAGE = f"{_FACTS} WHERE id > :after AND id < :before ORDER BY id LIMIT :limit"
_BY_ID = f"{_FACTS} WHERE id {{ids}}"
_QUARANTINED = f'SELECT task_id FROM task_result WHERE task_id {{ids}} AND error_json LIKE \'{{{{"code":"{POISON}",%\''
_LIVE = "SELECT id FROM task_live WHERE id > :after AND id <= :upto ORDER BY id LIMIT :limit"
_SUMS = select(schema.report_rollup).where(
    schema.report_rollup.c.tenant_id.in_(bindparam("tenants", expanding=True)),
    schema.report_rollup.c.grain == bindparam("grain"),
    schema.report_rollup.c.start_us.in_(bindparam("starts", expanding=True)),
    schema.report_rollup.c.type.in_(bindparam("types", expanding=True)),
)


class SqlReportStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_progress(self) -> Progress:
        table = schema.report_progress
        row = await self._database.read(lambda connection: connection.execute(select(table)).first())
        return Progress() if row is None else Progress(row.version, row.swept_id, find_us(row.looked_us))

    async def list_facts(self, *, after: int, before: int, limit: int) -> list[TaskFacts]:
        asked = {"after": after, "before": before, "limit": limit}

        def work(connection: Connection) -> list[TaskFacts]:
            return self._with_causes(connection, connection.execute(text(_PAGE), asked).fetchall())

        return await self._database.read(work)

    async def load_facts(self, task_ids: Collection[TaskId]) -> list[TaskFacts]:
        def work(connection: Connection) -> list[TaskFacts]:
            rows = self._database.bulk.select_by_ids(connection, _BY_ID, ids=list(task_ids))
            return self._with_causes(connection, rows)

        return await self._database.read(work) if task_ids else []

    async def list_live_ids(self, *, after: int, upto: int, limit: int) -> list[TaskId]:
        asked = {"after": after, "upto": upto, "limit": limit}

        def work(connection: Connection) -> list[TaskId]:
            return list(connection.execute(text(_LIVE), asked).scalars())

        return await self._database.read(work, deadline_s=SCAN_DEADLINE_S)

    async def list_left(self, *, after: int, limit: int) -> list[LeftBehind]:
        table = schema.report_left
        query = select(table).where(table.c.id > after).order_by(table.c.id).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(query).fetchall())
        return [LeftBehind(row.id, read_ids(row.ids_json)) for row in rows]

    async def roll_up(self, step: Step) -> bool:
        return await self._database.transact(partial(self._roll_up, step=step))

    async def list_rollups(self, wanted: RollupRange, *, after: Place | None = None) -> Sequence[Rollup]:
        table = schema.report_rollup
        query = select(table.c.start_us, table.c.type, table.c.figures_json).where(
            table.c.tenant_id == wanted.tenant_id,
            table.c.grain == wanted.grain,
            table.c.start_us >= (wanted.begin_us if after is None else after[0]),
            table.c.start_us < wanted.end_us,
        )
        if wanted.types:
            query = query.where(table.c.type.in_(wanted.types))
        if after is not None:
            query = query.where(or_(table.c.start_us > after[0], table.c.type > after[1]))
        query = query.order_by(table.c.start_us, table.c.type).limit(MOST_ROLLUPS)
        rows = await self._database.read(lambda connection: connection.execute(query).fetchall())
        return [Rollup(row.start_us, row.type, read_figures(row.figures_json)) for row in rows]

    async def purge(self, grain: Grain, *, before_us: int, limit: int) -> int:
        table = schema.report_rollup
        key = (table.c.tenant_id, table.c.grain, table.c.start_us, table.c.type)
        old = select(*key).where(table.c.grain == grain, table.c.start_us < before_us).limit(purge_limit(limit))

        def work(connection: Connection) -> int:
            doomed = [RollupKey(*row) for row in connection.execute(old.order_by(table.c.start_us))]
            return sum(
                connection.execute(delete(table).where(_are(doomed[start : start + KEYS_AT_ONCE]))).rowcount
                for start in range(0, len(doomed), KEYS_AT_ONCE)
            )

        return await self._database.transact(work)

    def _with_causes(self, connection: Connection, rows: Sequence[Any]) -> list[TaskFacts]:
        failed = [row[0] for row in rows if row[3] == STATUS_CODES[FAILED]]
        found = self._database.bulk.select_by_ids(connection, _QUARANTINED, ids=failed) if failed else ()
        quarantined = {row[0] for row in found}
        return [_facts(row, is_quarantined=row[0] in quarantined) for row in rows]

    def _roll_up(self, connection: Connection, *, step: Step) -> bool:
        if not self._move(connection, step):
            return False
        table, bulk = schema.report_rollup, self._database.bulk
        sums = self._find(connection, list(step.added))
        rows = [(*key, write_figures(_sum(sums.get(key), added)).decode()) for key, added in sorted(step.added.items())]
        if rows:
            columns = ("tenant_id", "grain", "start_us", "type", "figures_json")
            bulk.upsert(connection, table, columns=columns, rows=rows)
        left = schema.report_left
        if gone := [key for key, ids in step.left.items() if not ids]:
            connection.execute(delete(left).where(left.c.id.in_(gone)))
        if kept := [(key, write_ids(ids).decode()) for key, ids in sorted(step.left.items()) if ids]:
            bulk.upsert(connection, left, columns=("id", "ids_json"), rows=kept)
        return True

    def _move(self, connection: Connection, step: Step) -> bool:
        """Move the progress, whose row is there from the first step on; it is the lock of all that follows."""
        table, after = schema.report_progress, step.after
        if not step.before.version:
            self._database.bulk.insert_missing(connection, table, columns=("id", "version"), rows=[(ROW, 0)])
        moved = {"version": after.version, "swept_id": after.swept_to, "looked_us": to_us(after.looked_at)}
        mine = and_(table.c.id == ROW, table.c.version == step.before.version)
        return bool(connection.execute(update(table).where(mine).values(moved)).rowcount)

    def _find(self, connection: Connection, keys: Sequence[RollupKey]) -> Mapping[RollupKey, Figures]:
        """One statement for each width, which stays the same: it is compiled once. It may find a few more."""
        found: dict[RollupKey, Figures] = {}
        for grain in Grain:
            mine = [key for key in keys if key.grain is grain]
            tenants, starts = {key.tenant_id for key in mine}, {key.start_us for key in mine}
            asked = {"tenants": list(tenants), "starts": list(starts), "types": list({key.type for key in mine})}
            for row in connection.execute(_SUMS, {"grain": grain, **asked}) if mine else ():
                key = RollupKey(TenantId(row.tenant_id), grain, row.start_us, row.type)
                found[key] = read_figures(row.figures_json)
        return found


def _are(keys: Sequence[RollupKey]) -> Any:
    table = schema.report_rollup
    return or_(
        *(
            and_(
                table.c.tenant_id == key.tenant_id,
                table.c.grain == key.grain,
                table.c.start_us == key.start_us,
                table.c.type == key.type,
            )
            for key in keys
        )
    )


def _sum(known: Figures | None, added: Figures) -> Figures:
    if known is None:
        return added
    known.merge(added)
    return known


def _facts(row: Sequence[Any], *, is_quarantined: bool) -> TaskFacts:
    task_id, tenant_id, task_type, status, created, scheduled, moved, started, completed, attempt, retries = row
    return TaskFacts(
        id=task_id,
        tenant_id=tenant_id,
        type=task_type,
        status=STATUS_OF[status] if status else None,
        created_us=created,
        due_us=max(created, moved or scheduled),
        started_us=started,
        completed_us=completed,
        attempt=attempt,
        retry_count=retries,
        is_quarantined=is_quarantined,
    )
