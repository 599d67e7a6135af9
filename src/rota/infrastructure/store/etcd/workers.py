"""The register of worker incarnations in etcd."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from rota.application.ports.store import WorkerRecord
from rota.domain.audit import AuditEntry
from rota.domain.ids import WorkerId
from rota.domain.paging import purge_limit
from rota.domain.worker import Worker
from rota.infrastructure.etcd.ops import Op, Span, cut, is_unchanged, put, when
from rota.infrastructure.store.etcd.audit import audit_ops
from rota.infrastructure.store.etcd.nodes import delete_unchanged
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, Found, present

KIND = "workers"


Seen = Mapping[str, tuple[int, WorkerRecord]]  # records by key, each with the revision at which it was written


class EtcdWorkerRegistry:
    """A worker that says that it lives changes the record that it wrote before, without reading it, if it still is."""

    def __init__(self, space: EtcdSpace) -> None:
        self._space = space
        self._last: Seen = {}  # what the last change has written

    async def register(self, worker: Worker) -> None:
        key, now = self._space.key(KIND, worker.id), self._space.now()

        def plan(found: Found) -> tuple[list[Op], None]:
            new = WorkerRecord(worker, now, seen_at=now, retired_at=None)
            known = new if found[0] is None else _read(found[0])
            return [put(key, msgspec.json.encode(replace(known, worker=worker, seen_at=now)))], None

        await self._space.decide([key], plan)

    async def seen(self, loads: Mapping[WorkerId, int]) -> list[WorkerRecord]:
        await self._space.unison.join_in(KIND)
        now = self._space.now()
        records = await self._change(
            sorted(loads),
            lambda one: replace(one, worker=replace(one.worker, load=loads[one.worker.id]), seen_at=now),
        )
        return [record for record in records if record.retired_at is None]

    async def retire(self, worker_ids: Sequence[WorkerId]) -> None:
        now = self._space.now()
        await self._change(
            list(dict.fromkeys(worker_ids)),
            lambda one: one if one.retired_at else replace(one, worker=replace(one.worker, load=0), retired_at=now),
        )

    async def order(
        self,
        worker_id: WorkerId,
        *,
        capacity: int | None = None,
        draining: bool | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        key = self._space.key(KIND, worker_id)

        def plan(found: Found) -> tuple[list[Op], bool]:
            known = None if found[0] is None else _read(found[0])
            if known is None or known.retired_at is not None:
                return [], False
            orders = known.orders if capacity is None else known.orders.with_capacity(capacity)
            orders = orders if draining is None else orders.with_draining(draining)
            wish = put(key, msgspec.json.encode(replace(known, orders=orders)))
            return [wish, *audit_ops(self._space, audit)], True

        return await self._space.decide([key], plan)

    async def list_all(
        self, *, alive_only: bool = True, after: WorkerId | None = None, limit: int = 1000
    ) -> list[WorkerRecord]:
        span, size = self._space.ids_from(KIND, (after or 0) + 1), limit
        found: list[WorkerRecord] = []
        while len(found) < limit:
            page = await self._space.scan(span, size)
            found += [one for one in map(_read, page) if one.retired_at is None or not alive_only]
            if len(page) < size:
                break
            span, size = Span(page[-1].key + b"\0", span.end), size * 2  # many that have retired may lie in between
        return found[:limit]

    async def purge(self, *, retired_before: datetime, limit: int) -> int:
        found = await self._space.scan(self._space.all(KIND))
        old = [kv for kv in found if (end := _read(kv).retired_at) is not None and end < retired_before]
        return await delete_unchanged(self._space, old[: purge_limit(limit)])

    async def _change(
        self, worker_ids: Sequence[WorkerId], change: Callable[[WorkerRecord], WorkerRecord]
    ) -> list[WorkerRecord]:
        """Change those that are known, and say how they are then; one that somebody else changed meanwhile is read and
        changed again."""
        left = keys = [self._space.key(KIND, worker_id) for worker_id in worker_ids]
        found: Seen = {key: self._last[key] for key in left if key in self._last}
        written: dict[str, tuple[int, WorkerRecord]] = {}
        while left:
            written |= await self._write({key: (at, change(one)) for key, (at, one) in found.items()})
            left = [key for key in left if key not in written]
            found = {kv.key.decode(): (kv.mod_revision, _read(kv)) for kv in present(await self._space.find_all(left))}
            left = [key for key in left if key in found]
        self._last = written
        return [written[key][1] for key in keys if key in written]

    async def _write(self, changed: Seen) -> Seen:
        """Write records where the one before was written at this revision; those that were."""
        ops = [
            when([is_unchanged(key, at)], [put(key, msgspec.json.encode(one))]) for key, (at, one) in changed.items()
        ]
        written: dict[str, tuple[int, WorkerRecord]] = {}
        left = iter(changed.items())
        for parts in cut([op] for op in ops):
            done = await self._space.client.write([op for part in parts for op in part])
            for answer, (key, (_, one)) in zip(done.answers, left, strict=False):
                if answer.txn.succeeded:
                    written[key] = (done.revision, one)
        return written


def _read(kv: KV) -> WorkerRecord:
    return msgspec.json.decode(kv.value, type=WorkerRecord)
