"""The record of tasks in SQL."""

from collections.abc import Sequence

from sqlalchemy import select

from rota.domain.ids import TaskId
from rota.domain.log import PROGRESS_MARK, LogEntry, Progress, check_lines, progress_of
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.schema import task_logs
from rota.infrastructure.store.sql.log_rows import LOG_COLUMNS, entry_row, to_entry


class SqlLogStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, entries: Sequence[LogEntry]) -> None:
        if not entries:
            return
        check_lines(entries)
        rows = [entry_row(entry) for entry in entries]
        bulk = self._database.bulk
        await self._database.transact(
            lambda connection: bulk.insert_missing(connection, task_logs, columns=LOG_COLUMNS, rows=rows)
        )

    async def read(self, task_id: TaskId, *, after: int = 0, limit: int = 1000) -> list[LogEntry]:
        query = (
            select(*(task_logs.c[name] for name in LOG_COLUMNS))
            .where(task_logs.c.task_id == task_id, task_logs.c.seq > after)
            .order_by(task_logs.c.seq)
            .limit(limit)
        )
        rows = await self._database.read(lambda connection: connection.execute(query).fetchall())
        return [to_entry(row) for row in rows]

    async def find_progress(self, task_id: TaskId, attempt: int) -> Progress | None:
        query = (
            select(*(task_logs.c[name] for name in LOG_COLUMNS))
            .where(task_logs.c.task_id == task_id, task_logs.c.attempt == attempt)
            .where(task_logs.c.detail.startswith(PROGRESS_MARK, autoescape=True))
            .order_by(task_logs.c.seq.desc())
            .limit(1)
        )
        rows = await self._database.read(lambda connection: connection.execute(query).fetchall())
        return progress_of(to_entry(rows[0])) if rows else None
