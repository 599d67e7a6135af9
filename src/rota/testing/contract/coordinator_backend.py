"""What a backend brings to be tested, and what the tests build."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from rota.application.ports.coordinator import Coordinator
from rota.domain.attempt import Attempt
from rota.domain.events import Event, Told
from rota.domain.ids import NodeId, TaskId, TenantId, WorkerId
from rota.domain.priority import HIGH
from rota.domain.queue import QueueEntry
from rota.domain.task import PENDING, LiveTask, TaskState
from rota.domain.worker import Worker

T = TypeVar("T")

NODE_A, NODE_B, NODE_C = NodeId("node-a"), NodeId("node-b"), NodeId("node-c")
WORKER_1, WORKER_2 = WorkerId(7_100_000_000_000_000_001), WorkerId(7_100_000_000_000_000_002)
NOON = datetime(2199, 12, 31, 12, tzinfo=UTC)  # microseconds since 1970 near the end of what a double holds exactly
MICROSECOND = timedelta(microseconds=1)
AT_ONCE = timedelta(0)
LONG = timedelta(seconds=20)  # never waited for
MANY = 2_500
FIRST_ID = 7_000_000_000_000_000_001  # beyond 2^53: an adapter that lets ids become doubles is found out


class CoordinatorBackend(Protocol):
    """One coordinator's memory, empty when a test gets it, and power over its time and its memory."""

    @property
    def tick(self) -> timedelta:
        """The shortest lease that this backend keeps reliably on a busy machine."""
        ...

    async def connect(self) -> Coordinator:
        """One more node's view of the memory. The backend closes it after the test."""
        ...

    async def wait(self, duration: timedelta) -> None:
        """Let time pass: advance the virtual clock that the backend runs on, or really wait."""
        ...

    async def forget(self) -> None:
        """Make it lose all memory, as a crash without persistence would."""
        ...


async def begin(backend: CoordinatorBackend, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a call that blocks, and return when it does."""
    task = asyncio.create_task(call)
    await backend.wait(backend.tick)
    return task


async def outlast(backend: CoordinatorBackend, call: Coroutine[Any, Any, T]) -> T:
    """The answer of a call that waits for one tick in vain."""
    task = asyncio.create_task(call)
    await backend.wait(backend.tick * 2)
    return await task


def make_ids(count: int) -> list[TaskId]:
    return [TaskId(FIRST_ID + number) for number in range(count)]


def make_entries(ids: Iterable[TaskId], *, priority: int = 0, due_at: datetime | None = None) -> list[QueueEntry]:
    return [QueueEntry(task_id, priority, due_at) for task_id in ids]


def make_added(task_id: TaskId) -> LiveTask:
    """A task as it was added, with a name that needs care."""
    state = TaskState(id=task_id, status=PENDING, tenant_id=TenantId("ä b"), due_at=NOON, priority=HIGH)
    return LiveTask(state=state, type='mail "é" 1', timeout=timedelta(milliseconds=1500))


def make_attempts(ids: Iterable[TaskId], *, worker_id: WorkerId = WORKER_1, number: int = 1) -> list[Attempt]:
    return [Attempt(task_id, number, worker_id) for task_id in ids]


def make_worker(worker_id: WorkerId = WORKER_1, *, capacity: int = 10, load: int = 0) -> Worker:
    return Worker(id=worker_id, name=f"worker-{worker_id}", capacity=capacity, load=load)


async def hear(events: AsyncIterator[Told]) -> Event:
    """The next event, of which none was missed."""
    event = (await anext(events)).event
    assert event is not None, "some events were missed"
    return event


async def make_pages(*pages: Sequence[QueueEntry]) -> AsyncIterator[Sequence[QueueEntry]]:
    for page in pages:
        yield page
