"""Being seen as a process of the cluster."""

import asyncio
from datetime import timedelta

import pytest

from rota.application.attend import ALIVE_FOR, ATTEND_EVERY, DEAD_KEPT, LEAVE_WITHIN, Attendance
from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import NodeId
from rota.domain.node import NodeInfo
from rota.testing.faults import Fault
from tests.support.virtual import Bench, a_bench, virtually

ME = NodeInfo(id=NodeId("me"), roles=("worker",))
DEAD = NodeInfo(id=NodeId("dead"))


async def an_attendance() -> tuple[Bench, Attendance]:
    bench = await a_bench()
    return bench, Attendance(bench.node.store.nodes, bench.node.time, ME)


async def alive(bench: Bench) -> list[NodeInfo]:
    since = bench.clock.now() - ALIVE_FOR
    return [record.node for record in await bench.node.store.nodes.list_alive(since=since)]


@virtually
async def test_who_attends_is_alive_and_who_leaves_is_not() -> None:
    bench, attendance = await an_attendance()
    await attendance.attend()
    assert await alive(bench) == [ME]
    await attendance.leave()
    assert await alive(bench) == []


@virtually
async def test_one_lost_sign_of_life_is_no_death() -> None:
    bench, attendance = await an_attendance()
    await attendance.attend()
    await bench.clock.sleep(ATTEND_EVERY * 2)
    assert await alive(bench) == [ME]
    await bench.clock.sleep(ATTEND_EVERY * 2)
    assert await alive(bench) == []


@virtually
async def test_who_starts_sweeps_away_those_that_died_a_day_ago() -> None:
    bench, attendance = await an_attendance()
    await bench.node.store.nodes.seen(DEAD)
    await bench.clock.sleep(DEAD_KEPT + timedelta(seconds=1))
    await bench.node.time.sync()
    bench.faults.inject("nodes.purge", Fault.GONE)
    with pytest.raises(StoreUnavailableError):
        await attendance.attend()
    for _ in range(2):
        await attendance.attend()
    everybody = await bench.node.store.nodes.list_alive(since=bench.clock.now() - DEAD_KEPT * 3)
    assert [record.node for record in everybody] == [ME]


@virtually
async def test_leaving_is_not_held_up_by_a_store_that_is_away() -> None:
    bench, attendance = await an_attendance()
    bench.faults.inject("nodes.leave", Fault.GONE)
    await attendance.leave()

    async def wait_for_ever(node_id: NodeId) -> None:
        await asyncio.Event().wait()

    began_at = bench.clock.monotonic()
    setattr(attendance.nodes, "leave", wait_for_ever)  # noqa: B010 mypy knows that it is a method
    await attendance.leave()
    assert bench.clock.monotonic() - began_at <= LEAVE_WITHIN.total_seconds()
