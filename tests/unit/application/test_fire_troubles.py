"""Firing when the store, its clock or the schedules themselves make trouble."""

import asyncio

import pytest

from rota.application.fire import IN_FLIGHT, FireSchedules
from rota.domain.errors import StoreUnavailableError
from rota.domain.schedule import Overlap, Schedule
from rota.testing.faults import Fault
from tests.support.builders import MINUTE
from tests.support.virtual import pass_time, virtually
from tests.unit.application.test_fire import a_leader


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
