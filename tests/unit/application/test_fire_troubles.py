"""Firing when the store, its clock or the schedules themselves make trouble."""

import asyncio
from datetime import timedelta

import pytest

from rota.application.fire import IN_FLIGHT, FireSchedules
from rota.domain.errors import StoreUnavailableError
from rota.domain.schedule import Overlap, Schedule
from rota.infrastructure.store.memory.store import memory_store
from rota.testing.faults import Fault
from rota.testing.virtual_time import VirtualClock
from tests.support.builders import MINUTE
from tests.support.virtual import pass_time, virtually
from tests.unit.application.test_fire import Leader, WrongClock, a_leader


@virtually
async def test_writes_that_fail_take_no_room_from_those_that_come_after() -> None:
    leader = await a_leader()
    duty = FireSchedules(leader.node, most=1)
    types = [f"type-{place:02}" for place in range(20)]
    for task_type in types:
        await leader.put(Schedule(every=MINUTE, overlap=Overlap.ALLOW), type=task_type)
    await pass_time(60)
    for _ in range(IN_FLIGHT):
        leader.faults.inject("schedules.fire", Fault.TIMEOUT)
        with pytest.raises(StoreUnavailableError):
            await leader.fire(duty)

    await asyncio.wait_for(leader.fire(duty), timeout=60)

    assert [await leader.outcomes(task_type) for task_type in types] == [["fired"]] * len(types)


@virtually
async def test_a_leader_whose_write_failed_fires_on() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=MINUTE, overlap=Overlap.ALLOW))
    async with leader.firing():
        for _ in range(3):
            leader.faults.inject("schedules.fire", Fault.TIMEOUT)
            await pass_time(65)
    assert leader.faults.pending == {}
    assert await leader.outcomes() == ["fired"] * 3


@virtually
async def test_what_is_not_due_any_more_when_the_stores_clock_is_set_back_fires_when_it_is() -> None:
    clock = VirtualClock(asyncio.get_running_loop())
    stepped = WrongClock(clock, timedelta(0))
    leader = await Leader.on(memory_store(stepped), clock)
    await leader.put(Schedule(every=MINUTE, overlap=Overlap.ALLOW))
    await pass_time(60)

    async def step_back() -> None:
        stepped._off_by = -MINUTE / 2

    leader.faults.after("schedules.list_due", step_back)
    await leader.fire()
    assert await leader.outcomes() == []

    await pass_time(30)
    await leader.fire()
    assert await leader.outcomes() == ["fired"]


@virtually
async def test_a_run_that_never_began_is_named_by_those_that_are_skipped_for_it() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=MINUTE))
    async with leader.firing():
        await pass_time(181)
    fired, *skipped = await leader.occurrences()
    assert [one.reason for one in skipped] == [f"overlap: task {fired.task_id} never began"] * 2
    assert leader.counted("overlap") == 2
