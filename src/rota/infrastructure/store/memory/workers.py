"""The register of worker incarnations in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from rota.application.ports.store import WorkerRecord
from rota.domain.audit import AuditEntry
from rota.domain.ids import WorkerId
from rota.domain.paging import purge_limit
from rota.domain.worker import Worker
from rota.infrastructure.store.memory.state import MemoryState


class MemoryWorkerRegistry:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def register(self, worker: Worker) -> None:
        now = self._state.clock.now()
        known = self._state.workers.get(worker.id)
        first = known or WorkerRecord(worker, now, seen_at=now, retired_at=None)
        self._state.workers[worker.id] = replace(first, worker=worker, seen_at=now)

    async def seen(self, loads: Mapping[WorkerId, int]) -> list[WorkerRecord]:
        now = self._state.clock.now()
        known = sorted(loads.keys() & self._state.workers.keys())
        for worker_id in known:
            before = self._state.workers[worker_id]
            worker = replace(before.worker, load=loads[worker_id])
            self._state.workers[worker_id] = replace(before, worker=worker, seen_at=now)
        records = [self._state.workers[worker_id] for worker_id in known]
        return [record for record in records if record.retired_at is None]

    async def retire(self, worker_ids: Sequence[WorkerId]) -> None:
        now = self._state.clock.now()
        for worker_id in self._state.workers.keys() & set(worker_ids):
            known = self._state.workers[worker_id]
            if known.retired_at is None:
                worker = replace(known.worker, load=0)
                self._state.workers[worker_id] = replace(known, worker=worker, retired_at=now)

    async def order(
        self,
        worker_id: WorkerId,
        *,
        capacity: int | None = None,
        draining: bool | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        known = self._state.workers.get(worker_id)
        if known is None or known.retired_at is not None:
            return False
        orders = known.orders
        if capacity is not None:
            orders = orders.with_capacity(capacity)
        if draining is not None:
            orders = orders.with_draining(draining)
        self._state.workers[worker_id] = replace(known, orders=orders)
        self._state.record(audit)
        return True

    async def list_all(
        self, *, alive_only: bool = True, after: WorkerId | None = None, limit: int = 1000
    ) -> list[WorkerRecord]:
        known = self._state.workers
        ids = sorted(worker_id for worker_id in known if after is None or worker_id > after)
        return [known[one] for one in ids if known[one].retired_at is None or not alive_only][:limit]

    async def purge(self, *, retired_before: datetime, limit: int) -> int:
        known = self._state.workers.items()
        old = [one for one, record in known if record.retired_at is not None and record.retired_at < retired_before]
        doomed = sorted(old)[: purge_limit(limit)]
        for worker_id in doomed:
            del self._state.workers[worker_id]
        return len(doomed)
