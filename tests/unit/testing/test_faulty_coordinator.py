"""The faulty coordinator is the real one until told otherwise, in every method."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.application.ports.coordinator import Coordinator, Deliveries, Election, Signals, TaskQueue, WorkerPool
from rota.domain.attempt import Attempt
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event, EventKind
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.priority import LEVELS
from rota.domain.queue import QueueEntry
from rota.domain.worker import Heartbeat, Worker
from rota.infrastructure.coordination.memory import memory_coordinator
from rota.testing.contract.coordinator_backend import hear
from rota.testing.faults import Fault, Faults
from rota.testing.faulty_coordinator import faulty_coordinator
from tests.support.clock import FakeClock

NODE, WORKER, TASK = NodeId("node-a"), WorkerId(1), TaskId(2)
LEASE, AT_ONCE = timedelta(seconds=30), timedelta(0)
NOW = datetime(2030, 1, 1, tzinfo=UTC)
ENTRIES = [QueueEntry(TASK, 0)]
ATTEMPTS = [Attempt(TASK, 1, WORKER)]
PARTS = {"election": Election, "pool": WorkerPool, "queue": TaskQueue, "deliveries": Deliveries, "signals": Signals}

Call = Callable[[Coordinator], Awaitable[Any]]


async def no_pages() -> AsyncIterator[Sequence[QueueEntry]]:
    for _ in range(0):
        yield ENTRIES


async def listen(signals: AbstractAsyncContextManager[Any]) -> None:
    async with signals:
        pass


CALLS: dict[str, Call] = {
    "election.campaign": lambda c: c.election.campaign(NODE, LEASE),
    "election.renew": lambda c: c.election.renew(NODE, 1, ttl=LEASE),
    "election.resign": lambda c: c.election.resign(NODE, 1),
    "election.find_leader": lambda c: c.election.find_leader(),
    "election.wait_for_vacancy": lambda c: c.election.wait_for_vacancy(AT_ONCE),
    "pool.register": lambda c: c.pool.register(Worker(id=WORKER, name="pod-1"), LEASE),
    "pool.heartbeat": lambda c: c.pool.heartbeat(WORKER, Heartbeat(1), lease=LEASE),
    "pool.remove": lambda c: c.pool.remove([WORKER]),
    "pool.list_alive": lambda c: c.pool.list_alive(),
    "pool.list_beats": lambda c: c.pool.list_beats(),
    "queue.push": lambda c: c.queue.push(ENTRIES),
    "queue.take": lambda c: c.queue.take(1, order=LEVELS),
    "queue.wait_for_work": lambda c: c.queue.wait_for_work(AT_ONCE),
    "queue.wake": lambda c: c.queue.wake(),
    "queue.move_due": lambda c: c.queue.move_due(NOW, 1),
    "queue.discard": lambda c: c.queue.discard(ENTRIES),
    "queue.depths": lambda c: c.queue.depths(),
    "queue.loads": lambda c: c.queue.loads(),
    "queue.find_generation": lambda c: c.queue.find_generation(),
    "queue.rebuild": lambda c: c.queue.rebuild("first", no_pages()),
    "deliveries.assign": lambda c: c.deliveries.assign(ATTEMPTS),
    "deliveries.take": lambda c: c.deliveries.take(WORKER, 1, wait=AT_ONCE),
    "deliveries.acknowledge": lambda c: c.deliveries.acknowledge(ATTEMPTS),
    "deliveries.list_assigned": lambda c: c.deliveries.list_assigned(WORKER),
    "deliveries.held": lambda c: c.deliveries.held(WORKER),
    "signals.request_cancel": lambda c: c.signals.request_cancel([TASK], ttl=LEASE),
    "signals.find_cancelled": lambda c: c.signals.find_cancelled([TASK]),
    "signals.publish": lambda c: c.signals.publish([Event(kind=EventKind.TASK_CREATED, at=NOW)]),
    "signals.subscribe": lambda c: listen(c.signals.subscribe()),
}


@pytest.fixture
def faults() -> Faults:
    return Faults()


def test_every_method_of_the_port_is_tried_here() -> None:
    methods = {
        f"{part}.{name}"
        for part, port in PARTS.items()
        for name, _ in inspect.getmembers(port, inspect.isfunction)
        if not name.startswith("_")
    }
    assert set(CALLS) == methods


@pytest.mark.parametrize("operation", CALLS)
async def test_each_operation_fails_when_told_and_then_works_as_the_real_one(operation: str, faults: Faults) -> None:
    faulty = faulty_coordinator(memory_coordinator(FakeClock()), faults)
    faults.inject(operation, Fault.TIMEOUT)
    with pytest.raises(CoordinatorUnavailableError):
        await CALLS[operation](faulty)
    assert faults.pending == {}
    assert await CALLS[operation](faulty) == await CALLS[operation](memory_coordinator(FakeClock()))


async def test_a_push_that_got_no_answer_may_have_happened(faults: Faults) -> None:
    real = memory_coordinator(FakeClock())
    faults.inject("queue.push", Fault.EXECUTE_AND_TIMEOUT)
    with pytest.raises(CoordinatorUnavailableError):
        await faulty_coordinator(real, faults).queue.push(ENTRIES)
    assert (await real.queue.take(1, order=LEVELS)).task_ids == (TASK,)


async def test_a_faulty_subscription_hears_what_the_real_one_does(faults: Faults) -> None:
    faulty = faulty_coordinator(memory_coordinator(FakeClock()), faults)
    event = Event(kind=EventKind.TASK_CREATED, at=NOW)
    async with faulty.signals.subscribe() as events:
        await faulty.signals.publish([event])
        assert await hear(events) == event
