"""Ids under a leased slot."""

from datetime import timedelta

import pytest

from rota.application.ids import MARGIN, RENEW_EVERY, SLOT_TTL, LeasedIds
from rota.application.ports.store import SlotStore
from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import NodeId, issued_at
from rota.infrastructure.store.memory.store import memory_store
from rota.testing.faults import Fault, Faults
from rota.testing.faulty_store import faulty_store
from tests.support.clock import FakeClock

VALID_FOR = SLOT_TTL - MARGIN


def some_ids(slots: SlotStore, clock: FakeClock, *, name: str = "a") -> LeasedIds:
    return LeasedIds(slots, clock, node_id=NodeId(name))


async def test_without_a_slot_there_are_no_ids() -> None:
    clock = FakeClock()
    with pytest.raises(StoreUnavailableError, match="node a has no id slot"):
        some_ids(memory_store(clock).slots, clock).next()


async def test_ids_grow_also_while_the_clock_stands_still() -> None:
    clock = FakeClock()
    ids = some_ids(memory_store(clock).slots, clock)
    await ids.keep()
    issued = [ids.next() for _ in range(10_000)] + ids.take(5_000) + [ids.next()]
    assert issued == sorted(set(issued))


async def test_two_nodes_never_issue_the_same_id() -> None:
    clock = FakeClock()
    slots = memory_store(clock).slots
    nodes = [some_ids(slots, clock, name=name) for name in "ab"]
    for node in nodes:
        await node.keep()
    issued = [node.next() for _ in range(1000) for node in nodes]
    assert len(set(issued)) == 2000


async def test_a_slot_that_is_renewed_lasts() -> None:
    clock = FakeClock()
    ids = some_ids(memory_store(clock).slots, clock)
    issued = []
    for _ in range(20):
        await ids.keep()
        issued.append(ids.next())
        clock.advance(RENEW_EVERY)
    issued.append(ids.next())
    assert RENEW_EVERY * 20 > VALID_FOR, "else no renewal was needed"
    assert issued == sorted(set(issued))


async def test_a_slot_that_was_not_renewed_is_not_used_before_a_new_lease() -> None:
    clock = FakeClock()
    ids = some_ids(memory_store(clock).slots, clock)
    await ids.keep()
    last = ids.next()
    clock.advance(VALID_FOR)
    with pytest.raises(StoreUnavailableError):
        ids.next()
    clock.advance(SLOT_TTL)
    await ids.keep()
    assert ids.next() > last


async def test_another_process_of_the_same_name_ends_the_lease_and_ids_stay_distinct() -> None:
    clock = FakeClock()
    slots = memory_store(clock).slots
    old, new = some_ids(slots, clock), some_ids(slots, clock)
    await old.keep()
    before = [old.next() for _ in range(100)]
    await new.keep()
    taken_over = [new.next() for _ in range(100)]
    await old.keep()
    after = [old.next() for _ in range(100)]
    assert len({*before, *taken_over, *after}) == 300


async def test_while_the_store_is_away_ids_last_until_the_lease_may_be_over() -> None:
    clock, faults = FakeClock(), Faults()
    ids = some_ids(faulty_store(memory_store(clock), faults).slots, clock)
    await ids.keep()
    faults.inject("slots.renew", Fault.GONE, times=None)
    clock.advance(RENEW_EVERY)
    with pytest.raises(StoreUnavailableError):
        await ids.keep()
    ids.next()
    clock.advance(VALID_FOR - RENEW_EVERY)
    with pytest.raises(StoreUnavailableError):
        ids.next()


async def test_a_lease_whose_answer_was_lost_is_asked_for_again() -> None:
    clock, faults = FakeClock(), Faults()
    ids = some_ids(faulty_store(memory_store(clock), faults).slots, clock)
    faults.inject("slots.lease", Fault.EXECUTE_AND_TIMEOUT)
    with pytest.raises(StoreUnavailableError):
        await ids.keep()
    await ids.keep()
    ids.next()


async def test_each_lease_of_a_slot_has_a_greater_number_also_when_the_clock_stands_still() -> None:
    clock = FakeClock()
    slots = memory_store(clock).slots
    leases = [await slots.lease(NodeId("node"), SLOT_TTL) for _ in range(3)]
    assert len({lease.slot for lease in leases}) == 1
    numbers = [lease.number for lease in leases]
    assert numbers == sorted(set(numbers))


async def test_ids_follow_the_time_that_is_given() -> None:
    clock = FakeClock()
    slow = clock.now() - timedelta(hours=1)
    ids = LeasedIds(memory_store(clock).slots, clock, node_id=NodeId("a"), now=lambda: slow)
    await ids.keep()
    assert issued_at(ids.next()) == slow
