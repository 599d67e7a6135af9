"""The records of tasks in Redis. Steps are in the text of the task, and where there are many, or they say much, in a
hash; the lines of its attempts are in another."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec

from rota.domain.ids import TaskId
from rota.domain.log import LINE_BITS, PROGRESS_MARK, LogEntry, Progress, check_lines, place, progress_of
from rota.infrastructure.coordination.redis_client import Part
from rota.infrastructure.store.redis.documents import MOVED, StoredTask, is_wordless
from rota.infrastructure.store.redis.space import AT_ONCE, LONG_AT_ONCE, RedisSpace, load_own_script, present

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
        space, record = self._space, self._space.record(task_id)
        # In this order: steps that are moved out of the text meanwhile are found twice, and not never.
        lines, text, fields = await space.client.batch(
            [("HGETALL", space.lines(task_id)), ("GET", space.task(task_id)), ("HKEYS", record)]
        )
        entries = list(map(_LOG.decode, lines.values()))
        if text is None:
            return _cut(entries, after=after, limit=limit)
        names = [field.decode() for field in fields]
        moved = await space.find_fields(record, [name for name in names if name.startswith(MOVED)])
        stored = StoredTask(task_id, text)
        steps = {place(one[0]): one for one in stored.list_records(present(moved))}
        entries += [stored.first_entry(), *map(stored.to_entry, steps.values())]
        page = _cut(entries, after=after, limit=limit)
        long = [entry.seq for entry in page if entry.seq in steps and is_wordless(steps[entry.seq])]
        versions = [str(seq >> LINE_BITS) for seq in long]
        words = dict(zip(long, await space.gather("HMGET", record, parts=versions, at_once=LONG_AT_ONCE), strict=True))
        return [stored.to_entry(steps[one.seq], words[one.seq]) if one.seq in words else one for one in page]

    async def find_progress(self, task_id: TaskId, attempt: int) -> Progress | None:
        for entry in sorted(await self._read_lines(task_id), key=lambda entry: entry.seq, reverse=True):
            if entry.attempt == attempt and entry.detail.startswith(PROGRESS_MARK):
                return progress_of(entry)
        return None

    async def _read_lines(self, task_id: TaskId) -> list[LogEntry]:
        return list(map(_LOG.decode, (await self._space.read_hash(self._space.lines(task_id))).values()))


def _cut(entries: Iterable[LogEntry], *, after: int, limit: int) -> list[LogEntry]:
    return sorted((entry for entry in entries if entry.seq > after), key=lambda entry: entry.seq)[:limit]
