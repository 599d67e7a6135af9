"""The register of worker incarnations in Redis."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from rota.application.ports.store import WorkerRecord
from rota.domain.audit import AuditEntry
from rota.domain.ids import WorkerId
from rota.domain.paging import purge_limit
from rota.domain.worker import Worker
from rota.infrastructure.store.redis.space import Change, RedisSpace

_RECORD = msgspec.json.Decoder(WorkerRecord)


class RedisWorkerRegistry:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space
        self._key = space.key("workers:registry")

    async def register(self, worker: Worker) -> None:
        place, now = (self._key, str(worker.id)), await self._space.now()

        def plan(found: Sequence[bytes | None]) -> tuple[Change, None]:
            (document,) = found
            new = WorkerRecord(worker, now, seen_at=now, retired_at=None)
            known = new if document is None else _RECORD.decode(document)
            return Change().put(place, msgspec.json.encode(replace(known, worker=worker, seen_at=now))), None

        await self._space.decide([place], plan)

    async def seen(self, loads: Mapping[WorkerId, int]) -> list[WorkerRecord]:
        now = await self._space.now()
        records = await self._change(
            sorted(loads),
            lambda one: replace(one, worker=replace(one.worker, load=loads[one.worker.id]), seen_at=now),
        )
        return [record for record in records if record.retired_at is None]

    async def retire(self, worker_ids: Sequence[WorkerId]) -> None:
        now = await self._space.now()
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
        place = (self._key, str(worker_id))

        def plan(found: Sequence[bytes | None]) -> tuple[Change, bool]:
            known = None if found[0] is None else _RECORD.decode(found[0])
            if known is None or known.retired_at is not None:
                return Change(), False
            orders = known.orders if capacity is None else known.orders.with_capacity(capacity)
            orders = orders if draining is None else orders.with_draining(draining)
            wish = Change().put(place, msgspec.json.encode(replace(known, orders=orders)))
            return wish.note(self._space, audit), True

        return await self._space.decide([place], plan)

    async def list_all(
        self, *, alive_only: bool = True, after: WorkerId | None = None, limit: int = 1000
    ) -> list[WorkerRecord]:
        records = map(_RECORD.decode, (await self._space.read_hash(self._key)).values())
        wanted = [one for one in records if one.worker.id > (after or 0) and not (alive_only and one.retired_at)]
        return sorted(wanted, key=lambda one: one.worker.id)[:limit]

    async def purge(self, *, retired_before: datetime, limit: int) -> int:
        found = await self._space.read_hash(self._key)
        ends = {field: _RECORD.decode(document).retired_at for field, document in found.items()}
        old = sorted((field for field, end in ends.items() if end is not None and end < retired_before), key=int)
        return await self._space.delete_unchanged(self._key, {one: found[one] for one in old[: purge_limit(limit)]})

    async def _change(
        self, worker_ids: Sequence[WorkerId], change: Callable[[WorkerRecord], WorkerRecord]
    ) -> list[WorkerRecord]:
        """Change those that are known; how they are then."""
        fields = [str(worker_id) for worker_id in worker_ids]
        changed = await self._space.change_documents(
            self._key, fields, change=lambda document: msgspec.json.encode(change(_RECORD.decode(document)))
        )
        return [_RECORD.decode(document) for document in changed]
