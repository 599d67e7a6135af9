"""Ids of a node."""

from datetime import timedelta

from rota.application.ports.store import SlotLease
from rota.domain.ids import first_id_at
from rota.infrastructure.system import NodeIds
from tests.support.clock import START, FakeClock


def test_ids_grow_though_the_clock_steps_back() -> None:
    clock = FakeClock()
    ids = NodeIds(clock, SlotLease(slot=3, floor=0))
    first = ids.next()
    clock.advance(timedelta(seconds=-60))
    assert ids.next() > first


def test_a_slot_taken_over_starts_above_whatever_its_last_holder_could_have_issued() -> None:
    floor = first_id_at(START + timedelta(minutes=5))
    ids = NodeIds(FakeClock(), SlotLease(slot=3, floor=floor))
    assert ids.next() > floor


def test_two_slots_never_issue_the_same_id() -> None:
    clock = FakeClock()
    one, other = NodeIds(clock, SlotLease(1, floor=0)), NodeIds(clock, SlotLease(2, floor=0))
    assert not {one.next() for _ in range(10_000)} & {other.next() for _ in range(10_000)}
