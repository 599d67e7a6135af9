"""The records of tasks in etcd. The first entry follows from the task, the last one is with its result."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from rota.domain.ids import TaskId
from rota.domain.log import PROGRESS_MARK, LogEntry, Progress, check_lines, progress_of
from rota.infrastructure.etcd.client import LeaseGoneError
from rota.infrastructure.etcd.ops import Condition, Span, is_absent, is_present, put, put_missing, when
from rota.infrastructure.store.etcd.documents import encode, read_entry, read_result
from rota.infrastructure.store.etcd.records import log_key
from rota.infrastructure.store.etcd.space import EtcdSpace
from rota.infrastructure.store.spec_documents import creation_entry, read_spec

LEFT_ALONE = timedelta(days=7)  # lines of a task that is not there: it was purged, or they came before it


class EtcdLogStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def append(self, entries: Sequence[LogEntry]) -> None:
        check_lines(entries)
        first = {log_key(self._space, entry): entry for entry in reversed(entries)}  # of two in one place
        lines = [(entry.task_id, key, encode(entry)) for key, entry in reversed(first.items())]
        answers = await self._space.client.write_in_parts(
            [when([self._is_there(task_id)], [put_missing(key, text)]) for task_id, key, text in lines]
        )
        alone = [(key, text) for (_, key, text), one in zip(lines, answers, strict=True) if not one.txn.succeeded]
        if alone:
            lease = await self._space.client.grant(LEFT_ALONE)
            with suppress(LeaseGoneError):  # over already: as if they had been kept until now
                await self._space.client.write_in_parts(
                    [when([is_absent(key)], [put(key, text, lease=lease)]) for key, text in alone]
                )

    async def read(self, task_id: TaskId, *, after: int = 0, limit: int = 1000) -> list[LogEntry]:
        span = self._space.all("logs", task_id)
        begin = self._space.key("logs", task_id, after + 1).encode()
        between = list(map(read_entry, await self._space.scan(Span(begin, span.end), limit)))
        ends = [entry for entry in await self._read_ends(task_id) if entry.seq > after]
        return sorted([*between, *ends], key=lambda entry: entry.seq)[:limit]

    async def find_progress(self, task_id: TaskId, attempt: int) -> Progress | None:
        entries = map(read_entry, await self._space.scan(self._space.all("logs", task_id)))
        for entry in sorted(entries, key=lambda entry: entry.seq, reverse=True):
            if entry.attempt == attempt and entry.detail.startswith(PROGRESS_MARK):
                return progress_of(entry)
        return None

    def _is_there(self, task_id: TaskId) -> Condition:
        return is_present(self._space.key("tasks", task_id))

    async def _read_ends(self, task_id: TaskId) -> list[LogEntry]:
        keys = [self._space.key(kind, task_id) for kind in ("tasks", "results")]
        spec, result = await self._space.find_all(keys)
        if spec is None:
            return []
        first = creation_entry(task_id, read_spec(spec.value))
        return [first] if result is None else [first, read_result(result).log]
