"""The records of tasks in Redis. Steps are in the text of the task; the lines of its attempts are in a hash."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from rota.domain.ids import TaskId
from rota.domain.log import PROGRESS_MARK, LogEntry, Progress, check_lines, progress_of
from rota.infrastructure.coordination.redis_client import Part
from rota.infrastructure.store.redis.adding import find_stored
from rota.infrastructure.store.redis.space import AT_ONCE, RedisSpace, load_own_script

LEFT_ALONE = timedelta(days=7)  # lines of a task that is not there: it was purged, or they came before it
_LOG = msgspec.json.Decoder(LogEntry)


class RedisLogStore:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space
        self._append = load_own_script("append_lines")

    async def append(self, entries: Sequence[LogEntry]) -> None:
        check_lines(entries)
        for start in range(0, len(entries), AT_ONCE):
            by_task: dict[TaskId, list[LogEntry]] = {}
            for entry in entries[start : start + AT_ONCE]:
                by_task.setdefault(entry.task_id, []).append(entry)
            keys = [key for one in by_task for key in (self._space.task(one), self._space.lines(one))]
            args: list[Part] = [int(LEFT_ALONE.total_seconds())]
            for own in by_task.values():
                args += (len(own), *(part for one in own for part in (one.seq, msgspec.json.encode(one))))
            await self._space.client.run(self._append, keys=keys, args=args)

    async def read(self, task_id: TaskId, *, after: int = 0, limit: int = 1000) -> list[LogEntry]:
        lines = await self._read_lines(task_id)
        stored = await find_stored(self._space, [task_id])
        entries = [*(entry for one in stored for entry in one.list_entries()), *lines]
        return sorted((entry for entry in entries if entry.seq > after), key=lambda entry: entry.seq)[:limit]

    async def find_progress(self, task_id: TaskId, attempt: int) -> Progress | None:
        for entry in sorted(await self._read_lines(task_id), key=lambda entry: entry.seq, reverse=True):
            if entry.attempt == attempt and entry.detail.startswith(PROGRESS_MARK):
                return progress_of(entry)
        return None

    async def _read_lines(self, task_id: TaskId) -> list[LogEntry]:
        return list(map(_LOG.decode, (await self._space.read_hash(self._space.lines(task_id))).values()))
