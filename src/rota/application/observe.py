"""The leader's gauges: how much there is of everything, told by one node for the whole cluster."""

from dataclasses import dataclass

from rota.application import metrics
from rota.application.ports.coordinator import TaskQueue, WorkerPool
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.store import TaskStore
from rota.domain.priority import LEVELS
from rota.domain.queue import QueueDepths
from rota.domain.task import TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Observe:
    tasks: TaskStore
    queue: TaskQueue
    pool: WorkerPool
    collector: MetricsCollector

    async def __call__(self) -> None:
        self._put_depths(await self.queue.depths())
        self.collector.put(metrics.WORKERS_ONLINE, value=len(await self.pool.list_alive()))
        self._put_tasks(await self.tasks.count_by_status(None))

    def clear(self) -> None:
        """Another node tells them from now on; two that add up would tell twice as much, and a 0 would be a lie."""
        for gauge in (metrics.QUEUE_LENGTH, metrics.QUEUE_DELAYED, metrics.WORKERS_ONLINE, metrics.TASKS):
            self.collector.forget(gauge)

    def _put_depths(self, depths: QueueDepths) -> None:
        for level in LEVELS:
            self.collector.put(metrics.QUEUE_LENGTH, str(level), value=depths.ready.get(level, 0))
        self.collector.put(metrics.QUEUE_DELAYED, value=depths.delayed)

    def _put_tasks(self, counts: dict[TaskStatus, int]) -> None:
        for status in TaskStatus:
            self.collector.put(metrics.TASKS, status, value=counts.get(status, 0))
