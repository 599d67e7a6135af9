"""What operators do with workers, from any node: look at them, drain and resume them, change how much they hold.

An order is kept in the record of the worker's incarnation, which the worker reads with each heartbeat. A signal lets it
read at once; if that is lost the order counts a heartbeat later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from rota.application.audit import Actor, record
from rota.application.node import Node
from rota.application.ports.store import WorkerRecord
from rota.domain.audit import AuditEntry
from rota.domain.checks import check_number
from rota.domain.errors import ConflictError, CoordinatorUnavailableError, NotFoundError
from rota.domain.ids import WorkerId
from rota.domain.worker import MAX_CAPACITY, order_mark

SIGNAL_KEPT = timedelta(seconds=5)  # a worker that runs nothing looks once a second

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ManageWorkers:
    node: Node

    async def list(
        self, *, alive_only: bool = False, after: WorkerId | None = None, limit: int = 100
    ) -> list[WorkerRecord]:
        """A page of the incarnations, by id; those that have retired are kept for a day."""
        return await self.node.store.workers.list_all(alive_only=alive_only, after=after, limit=limit)

    async def get(self, worker_id: WorkerId) -> WorkerRecord:
        page = await self.node.store.workers.list_all(alive_only=False, after=WorkerId(worker_id - 1), limit=1)
        if not page or page[0].worker.id != worker_id:
            raise NotFoundError("worker", worker_id)
        return page[0]

    async def list_alive(self) -> frozenset[WorkerId]:
        """The incarnations whose lease has not run out. While no coordinator answers, those that have not retired."""
        try:
            return frozenset(worker.id for worker in await self.node.coordinator.pool.list_alive())
        except CoordinatorUnavailableError:
            return frozenset(record.worker.id for record in await self.node.store.workers.list_all())

    async def drain(self, worker_id: WorkerId, *, actor: Actor | None = None) -> WorkerRecord:
        """Let it take nothing new, and hand back what it has not begun. What runs goes on."""
        audit = record(self.node, actor, action="worker.drain", subject=worker_id)
        return await self._order(worker_id, draining=True, audit=audit)

    async def resume(self, worker_id: WorkerId, *, actor: Actor | None = None) -> WorkerRecord:
        """Let it take work again."""
        audit = record(self.node, actor, action="worker.resume", subject=worker_id)
        return await self._order(worker_id, draining=False, audit=audit)

    async def set_capacity(self, worker_id: WorkerId, capacity: int, *, actor: Actor | None = None) -> WorkerRecord:
        """Let it hold up to this many attempts; what is beyond a smaller number runs to its end."""
        check_number("capacity", capacity, least=1, most=MAX_CAPACITY)
        audit = record(self.node, actor, action="worker.patch", subject=worker_id, detail=f"capacity {capacity}")
        return await self._order(worker_id, capacity=capacity, audit=audit)

    async def _order(
        self,
        worker_id: WorkerId,
        *,
        capacity: int | None = None,
        draining: bool | None = None,
        audit: Sequence[AuditEntry],
    ) -> WorkerRecord:
        workers = self.node.store.workers
        if not await workers.order(worker_id, capacity=capacity, draining=draining, audit=audit):
            await self.get(worker_id)
            raise ConflictError(f"worker {worker_id} has retired; list the workers for one that is alive")
        try:
            await self.node.coordinator.signals.request_cancel([order_mark(worker_id)], ttl=SIGNAL_KEPT)
        except CoordinatorUnavailableError as exc:
            log.warning("order.not_signalled", worker_id=worker_id, error=str(exc))
        return await self.get(worker_id)
