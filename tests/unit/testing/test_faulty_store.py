"""The faulty store is the real one until told otherwise, in every method."""

import inspect
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from rota.application.ports.audit import AuditStore
from rota.application.ports.store import (
    CalendarStore,
    ConfigStore,
    LogStore,
    NodeRegistry,
    ScheduleStore,
    SlotLease,
    SlotStore,
    Store,
    TaskStore,
    TermStore,
    TokenStore,
    WorkerRegistry,
    Written,
)
from rota.domain.audit import AuditFilter
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.errors import IdempotencyMismatchError, StoreUnavailableError
from rota.domain.firing import FullFiring
from rota.domain.ids import DEFAULT_TENANT, NodeId, TaskId, WorkerId
from rota.domain.log import LogEntry, place
from rota.domain.node import NodeInfo
from rota.domain.paging import TaskFilter
from rota.domain.schedule import Occurrence
from rota.domain.task import PENDING, PROCESSING, LogKind
from rota.infrastructure.store.memory.store import memory_store
from rota.testing.faults import Fault, Faults
from rota.testing.faulty_store import faulty_store
from rota.testing.values import replace
from tests.support.builders import (
    EMAIL,
    HOUR,
    MINUTE,
    NOW,
    a_config,
    a_new_task,
    a_state,
    a_token,
    a_worker,
    an_audit_entry,
)
from tests.support.clock import FakeClock

NODE, WORKER, TASK = NodeId("node-a"), WorkerId(1), TaskId(1)
LEASE = timedelta(seconds=30)
LONG_AFTER = NOW + timedelta(days=3650)
GRANT = a_state(1).granted(WORKER, term=1, at=NOW, timeout=MINUTE)
ENTRY = an_audit_entry(1)
LINE = LogEntry(task_id=TASK, seq=place(1, 1), kind=LogKind.INFO, at=NOW, message="a line")


def a_firing(occurrence: Occurrence, *, seen_at: datetime, next_fire_at: datetime) -> FullFiring:
    return FullFiring(
        tenant_id=DEFAULT_TENANT,
        task_type=EMAIL,
        revision=1,
        seen_at=seen_at,
        next_fire_at=next_fire_at,
        occurrences=(occurrence,),
    )


SKIPPED = Occurrence(task_type=EMAIL, fire_at=NOW, reason="disabled")
FIRING = a_firing(SKIPPED, seen_at=NOW, next_fire_at=NOW + HOUR)
CALENDAR = StoredCalendar(calendar=Calendar(name="closed"))
PARTS = {
    "tasks": TaskStore,
    "logs": LogStore,
    "configs": ConfigStore,
    "schedules": ScheduleStore,
    "calendars": CalendarStore,
    "workers": WorkerRegistry,
    "tokens": TokenStore,
    "audit": AuditStore,
    "terms": TermStore,
    "slots": SlotStore,
    "nodes": NodeRegistry,
}

Call = Callable[[Store], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "tasks.now": lambda s: s.tasks.now(),
    "tasks.add": lambda s: s.tasks.add([replace(a_new_task(2), audit=(ENTRY,))]),
    "tasks.advance": lambda s: s.tasks.advance([GRANT], audit=[ENTRY]),
    "tasks.find": lambda s: s.tasks.find(TASK, DEFAULT_TENANT),
    "tasks.load": lambda s: s.tasks.load([TASK]),
    "tasks.find_by_keys": lambda s: s.tasks.find_by_keys(DEFAULT_TENANT, ["key"]),
    "tasks.find_live": lambda s: s.tasks.find_live([TASK]),
    "tasks.list_live": lambda s: s.tasks.list_live(after=TaskId(0), limit=1),
    "tasks.list_running": lambda s: s.tasks.list_running(after=TaskId(0), limit=1),
    "tasks.list_due": lambda s: s.tasks.list_due(1),
    "tasks.list_overdue": lambda s: s.tasks.list_overdue(1),
    "tasks.list_held": lambda s: s.tasks.list_held(WORKER),
    "tasks.list_page": lambda s: s.tasks.list_page(TaskFilter()),
    "tasks.count_by_status": lambda s: s.tasks.count_by_status(DEFAULT_TENANT),
    "tasks.count_ended": lambda s: s.tasks.count_ended(DEFAULT_TENANT),
    "terms.find_last": lambda s: s.terms.find_last(),
    "tasks.purge": lambda s: s.tasks.purge(completed_before=NOW, limit=1),
    "logs.append": lambda s: s.logs.append([LINE]),
    "logs.read": lambda s: s.logs.read(TASK, after=0, limit=1),
    "logs.find_progress": lambda s: s.logs.find_progress(TASK, 1),
    "configs.put": lambda s: s.configs.put(a_config("sms"), expected_revision=0, audit=[ENTRY]),
    "configs.find": lambda s: s.configs.find(DEFAULT_TENANT, EMAIL),
    "configs.find_many": lambda s: s.configs.find_many([(DEFAULT_TENANT, EMAIL)]),
    "configs.list_page": lambda s: s.configs.list_page(DEFAULT_TENANT, after="a", limit=1),
    "configs.find_revision": lambda s: s.configs.find_revision(DEFAULT_TENANT, EMAIL, revision=1),
    "configs.list_revisions": lambda s: s.configs.list_revisions(DEFAULT_TENANT, EMAIL, limit=1),
    "schedules.aim": lambda s: s.schedules.aim(a_config(EMAIL, next_fire_at=NOW), None),
    "schedules.list_runs": lambda s: s.schedules.list_runs({(DEFAULT_TENANT, EMAIL): NOW}, limit=1),
    "schedules.find_occurrences": lambda s: s.schedules.find_occurrences(DEFAULT_TENANT, EMAIL, times=[NOW]),
    "calendars.put": lambda s: s.calendars.put(CALENDAR, expected_revision=0, audit=[ENTRY]),
    "calendars.find": lambda s: s.calendars.find(DEFAULT_TENANT, "closed"),
    "calendars.load": lambda s: s.calendars.load([(DEFAULT_TENANT, "closed")]),
    "calendars.list_page": lambda s: s.calendars.list_page(DEFAULT_TENANT, after="a", limit=1),
    "calendars.list_users": lambda s: s.calendars.list_users(DEFAULT_TENANT, "closed", after="a", limit=1),
    "calendars.delete": lambda s: s.calendars.delete(DEFAULT_TENANT, "closed", audit=[ENTRY]),
    "configs.delete": lambda s: s.configs.delete(DEFAULT_TENANT, EMAIL, audit=[ENTRY]),
    "schedules.list_unreadable": lambda s: s.schedules.list_unreadable(1),
    "schedules.list_due": lambda s: s.schedules.list_due(1),
    "schedules.fire": lambda s: s.schedules.fire([FIRING]),
    "schedules.find_next": lambda s: s.schedules.find_next(),
    "schedules.list_occurrences": lambda s: s.schedules.list_occurrences(DEFAULT_TENANT, EMAIL, limit=1),
    "schedules.purge": lambda s: s.schedules.purge(fired_before=LONG_AFTER, limit=1),
    "workers.register": lambda s: s.workers.register(a_worker(2)),
    "workers.seen": lambda s: s.workers.seen({WORKER: 3}),
    "nodes.seen": lambda s: s.nodes.seen(NodeInfo(id=NodeId("node"))),
    "nodes.leave": lambda s: s.nodes.leave(NodeId("node")),
    "nodes.list_alive": lambda s: s.nodes.list_alive(since=NOW),
    "nodes.purge": lambda s: s.nodes.purge(seen_before=NOW, limit=1),
    "workers.order": lambda s: s.workers.order(WORKER, capacity=2, draining=True, audit=[an_audit_entry()]),
    "workers.retire": lambda s: s.workers.retire([WORKER]),
    "workers.list_all": lambda s: s.workers.list_all(alive_only=False, after=WorkerId(0), limit=1),
    "workers.purge": lambda s: s.workers.purge(retired_before=LONG_AFTER, limit=1),
    "tokens.add": lambda s: s.tokens.add(a_token("9"), audit=[ENTRY]),
    "tokens.find": lambda s: s.tokens.find("1"),
    "tokens.list_page": lambda s: s.tokens.list_page(DEFAULT_TENANT, after="1", limit=1),
    "tokens.revoke": lambda s: s.tokens.revoke(DEFAULT_TENANT, "1", at=NOW, audit=[ENTRY]),
    "tokens.touch": lambda s: s.tokens.touch({"1": NOW}),
    "tokens.purge": lambda s: s.tokens.purge(ended_before=LONG_AFTER, limit=1),
    "audit.list_page": lambda s: s.audit.list_page(DEFAULT_TENANT, before=8, limit=1),
    "audit.add": lambda s: s.audit.add([an_audit_entry(9)]),
    "audit.search": lambda s: s.audit.search(AuditFilter(actor="ada")),
    "audit.purge": lambda s: s.audit.purge(before=LONG_AFTER, limit=1),
    "terms.begin": lambda s: s.terms.begin(NODE),
    "terms.confirm": lambda s: s.terms.confirm(1),
    "slots.lease": lambda s: s.slots.lease(NODE, LEASE),
    "slots.renew": lambda s: s.slots.renew(NODE, SlotLease(0, floor=0), ttl=LEASE),
}
each_call = pytest.mark.parametrize("operation", CALLS)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def faults() -> Faults:
    return Faults()


async def fill(store: Store) -> Store:
    """So that every call has something to answer."""
    await store.tasks.add([a_new_task(1)])
    await store.configs.put(a_config(next_fire_at=NOW - HOUR))
    early = Occurrence(task_type=EMAIL, fire_at=NOW - HOUR, reason="late")
    await store.schedules.fire([a_firing(early, seen_at=NOW - HOUR, next_fire_at=NOW)])
    await store.workers.register(a_worker(1))
    await store.workers.register(a_worker(3))
    await store.workers.retire([WorkerId(3)])
    await store.tokens.add(a_token("1"), audit=[an_audit_entry(7)])
    await store.tokens.add(a_token("2", revoked_at=NOW), audit=[an_audit_entry(8)])
    await store.terms.begin(NODE)
    await store.slots.lease(NODE, LEASE)
    return store


async def snapshot(store: Store) -> list[Any]:
    """Everything that a call could have changed."""
    return [
        await store.tasks.list_page(TaskFilter()),
        await store.logs.read(TASK),
        await store.configs.list_page(DEFAULT_TENANT),
        await store.schedules.list_occurrences(DEFAULT_TENANT, EMAIL),
        await store.workers.list_all(alive_only=False),
        await store.tokens.list_page(DEFAULT_TENANT),
        await store.audit.list_page(DEFAULT_TENANT),
        [await store.terms.confirm(number) for number in (1, 2)],
    ]


def test_every_method_of_every_part_is_covered() -> None:
    methods = {
        f"{part}.{name}"
        for part, port in PARTS.items()
        for name, _ in inspect.getmembers(port, inspect.isfunction)
        if not name.startswith("_")
    }
    assert CALLS.keys() == methods


@each_call
async def test_without_a_fault_every_call_is_the_real_one(operation: str, clock: FakeClock, faults: Faults) -> None:
    real, other = await fill(memory_store(clock)), await fill(memory_store(clock))
    assert await CALLS[operation](faulty_store(other, faults)) == await CALLS[operation](real)
    assert await snapshot(other) == await snapshot(real)


@each_call
@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.DEADLOCK, Fault.GONE, Fault.READ_ONLY])
async def test_a_fault_makes_its_call_fail_without_effect(
    operation: str, fault: Fault, clock: FakeClock, faults: Faults
) -> None:
    real = await fill(memory_store(clock))
    before = await snapshot(real)
    faults.inject(operation, fault)
    with pytest.raises(StoreUnavailableError):
        await CALLS[operation](faulty_store(real, faults))
    assert faults.pending == {}
    assert await snapshot(real) == before


@each_call
async def test_a_call_whose_answer_is_lost_took_effect(operation: str, clock: FakeClock, faults: Faults) -> None:
    real, other = await fill(memory_store(clock)), await fill(memory_store(clock))
    await CALLS[operation](real)
    faults.inject(operation, Fault.EXECUTE_AND_TIMEOUT)
    with pytest.raises(StoreUnavailableError):
        await CALLS[operation](faulty_store(other, faults))
    assert await snapshot(other) == await snapshot(real)


async def test_a_step_whose_answer_was_lost_is_repeated(clock: FakeClock, faults: Faults) -> None:
    store = faulty_store(await fill(memory_store(clock)), faults)
    faults.inject("tasks.advance", Fault.EXECUTE_AND_TIMEOUT)
    with pytest.raises(StoreUnavailableError):
        await store.tasks.advance([GRANT])
    assert await store.tasks.advance([GRANT]) == Written(repeated=frozenset({TASK}))
    assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PROCESSING: 1}


async def test_an_add_whose_answer_was_lost_adds_one_task(clock: FakeClock, faults: Faults) -> None:
    store = faulty_store(memory_store(clock), faults)
    faults.inject("tasks.add", Fault.EXECUTE_AND_TIMEOUT)
    with pytest.raises(StoreUnavailableError):
        await store.tasks.add([a_new_task(1, key="key")])
    [answer] = await store.tasks.add([a_new_task(2, key="key")])
    assert (answer.task_id, answer.is_repeat) == (TASK, True)
    assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 1}


async def test_an_error_of_the_real_store_passes_through(clock: FakeClock, faults: Faults) -> None:
    store = faulty_store(memory_store(clock), faults)
    await store.tasks.add([a_new_task(1, key="key", digest="one")])
    with pytest.raises(IdempotencyMismatchError):
        await store.tasks.add([a_new_task(2, key="key", digest="two")])
    assert await store.tasks.find(TaskId(2), DEFAULT_TENANT) is None
