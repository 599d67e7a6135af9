"""The register of worker incarnations in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rota.application.ports.store import WorkerRecord
from rota.domain.ids import WorkerId
from rota.domain.worker import Worker
from rota.infrastructure.store.memory.state import MemoryState


class MemoryWorkerRegistry:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def register(self, worker: Worker) -> None:
        now = self._state.clock.now()
        known = self._state.workers.get(worker.id)
        registered_at = known.registered_at if known is not None else now
        self._state.workers[worker.id] = WorkerRecord(worker, registered_at, seen_at=now, retired_at=None)

    async def seen(self, loads: Mapping[WorkerId, int]) -> None:
        now = self._state.clock.now()
        for worker_id in loads.keys() & self._state.workers.keys():
            known = self._state.workers[worker_id]
            worker = replace(known.worker, load=loads[worker_id])
            self._state.workers[worker_id] = replace(known, worker=worker, seen_at=now)

    async def retire(self, worker_ids: Sequence[WorkerId]) -> None:
        now = self._state.clock.now()
        for worker_id in self._state.workers.keys() & set(worker_ids):
            known = self._state.workers[worker_id]
            if known.retired_at is None:
                worker = replace(known.worker, load=0)
                self._state.workers[worker_id] = replace(known, worker=worker, retired_at=now)

    async def list_all(self, *, alive_only: bool = True) -> list[WorkerRecord]:
        records = (record for _, record in sorted(self._state.workers.items()))
        return [record for record in records if record.retired_at is None or not alive_only]
