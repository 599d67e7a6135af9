"""When a process leaves its primary, and when it comes back."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from rota.domain.errors import CoordinatorUnavailableError, InvalidError
from rota.domain.priority import LEVELS
from rota.domain.queue import QueueEntry
from rota.infrastructure.coordination.memory import join_memory
from rota.testing.contract.coordinator_backend import NODE_A, WORKER_1, make_attempts, make_entries, make_ids
from rota.testing.faults import Fault
from rota.testing.virtual_time import run_virtually
from tests.unit.infrastructure.failover.cluster import Cluster

ORDER = tuple(reversed(LEVELS))


def test_the_call_that_finds_the_primary_away_is_made_on_the_fallback() -> None:
    async def main() -> None:
        cluster = Cluster()
        async with cluster.start() as process:
            process.primary_way.begin()
            with capture_logs() as logs:
                await process.node.queue.push(make_entries(make_ids(3)))
            assert len((await join_memory(cluster.fallback).queue.take(10, order=ORDER)).task_ids) == 3
            assert [entry["event"] for entry in logs] == ["coordinator.fallback"]
            assert process.gauges.fallback == 1
            assert process.switches == [True]

    run_virtually(main())


def test_a_primary_that_comes_back_and_refuses_us_is_told_of_once_with_what_to_do() -> None:
    async def main() -> None:
        async with Cluster().start() as process:
            process.primary_way.begin()
            with capture_logs() as logs:
                await process.node.queue.wake()
                process.primary_way.begin(fix="give us a password")
                await process.primary_way.wait_for_calls(process.primary_way.calls + 3)
            assert [(entry["event"], entry.get("fix")) for entry in logs] == [
                ("coordinator.fallback", None),
                ("coordinator.refused", "give us a password"),
            ]

    run_virtually(main())


def test_later_calls_go_straight_to_the_fallback() -> None:
    async def main() -> None:
        async with Cluster().start() as process:
            process.primary_way.begin()
            await process.node.queue.wake()
            asked = process.primary_way.calls
            for _ in range(20):
                await process.node.queue.wake()
                await process.node.pool.list_alive()
                await process.node.signals.request_cancel(make_ids(1), ttl=timedelta(seconds=5))
            assert process.primary_way.calls == asked

    run_virtually(main())


def test_calls_that_fail_at_the_same_time_move_the_switch_once() -> None:
    async def main() -> None:
        async with Cluster().start() as process:
            waits = [asyncio.create_task(process.node.queue.wait_for_work(timedelta(seconds=5))) for _ in range(5)]
            await process.primary_way.wait_for_calls(5)
            process.primary_way.begin()
            await asyncio.gather(*waits)
            assert process.switches == [True]

    run_virtually(main())


def test_an_error_of_another_kind_is_passed_on() -> None:
    async def read_pages() -> AsyncIterator[Sequence[QueueEntry]]:
        raise InvalidError("page", "is bad")
        yield []

    async def main() -> None:
        async with Cluster().start() as process:
            with pytest.raises(InvalidError):
                await process.node.queue.rebuild("first", read_pages())
            assert process.switches == []

    run_virtually(main())


def test_when_both_are_away_the_caller_is_told() -> None:
    async def main() -> None:
        async with Cluster().start() as process:
            process.primary_way.begin()
            process.fallback_way.begin()
            for _ in range(2):
                with pytest.raises(CoordinatorUnavailableError):
                    await process.node.queue.wake()

    run_virtually(main())


def test_a_primary_is_used_again_when_it_has_answered_for_three_seconds() -> None:
    async def main() -> None:
        cluster = Cluster()
        async with cluster.start() as process:
            process.primary_way.begin()
            await process.node.queue.wake()
            await cluster.pass_time(10.5)
            process.primary_way.end()
            await cluster.pass_time(3)
            assert process.switches == [True], "too early"
            with capture_logs() as logs:
                await cluster.pass_time(1.5)
            assert process.switches == [True, False]
            assert [entry["event"] for entry in logs] == ["coordinator.restored"]
            assert process.gauges.fallback == 0
            await process.node.queue.push(make_entries(make_ids(1)))
            assert (await join_memory(cluster.primary).queue.depths()).ready == {0: 1}

    run_virtually(main())


def test_a_primary_that_comes_and_goes_is_left_alone() -> None:
    async def main() -> None:
        cluster = Cluster()
        async with cluster.start() as process:
            process.primary_way.begin()
            await process.node.queue.wake()
            await cluster.pass_time(0.5)
            for _ in range(10):
                process.primary_way.end()
                await cluster.pass_time(2)
                process.primary_way.begin()
                await cluster.pass_time(1)
            assert process.switches == [True]

    run_virtually(main())


def test_a_primary_that_takes_no_writes_is_not_used_again() -> None:
    async def main() -> None:
        cluster = Cluster()
        async with cluster.start() as process:
            process.primary_way.inject("queue.push", Fault.READ_ONLY)
            process.primary_way.inject("signals.request_cancel", Fault.READ_ONLY, times=None)
            await process.node.queue.push(make_entries(make_ids(1)))
            await cluster.pass_time(60)
            assert process.switches == [True]

    run_virtually(main())


def test_a_late_failure_from_before_a_switch_moves_nothing() -> None:
    async def main() -> None:
        cluster, released = Cluster(), asyncio.Event()

        async def read_pages() -> AsyncIterator[Sequence[QueueEntry]]:
            await released.wait()
            raise CoordinatorUnavailableError("this connection was lost long ago")
            yield []

        async with cluster.start() as process:
            late = asyncio.create_task(process.node.queue.rebuild("first", read_pages()))
            await process.primary_way.wait_for_calls(1)
            process.primary_way.inject("queue.wake", Fault.GONE)
            await process.node.queue.wake()
            await cluster.pass_time(10)
            assert process.switches == [True, False]
            released.set()
            with pytest.raises(CoordinatorUnavailableError):
                await late
            assert process.switches == [True, False]

    run_virtually(main())


@pytest.mark.parametrize("part", ["work", "vacancy", "take"])
def test_a_wait_on_a_primary_that_dies_goes_on_with_the_fallback(part: str) -> None:
    async def main() -> None:
        cluster = Cluster()
        async with cluster.start() as process:
            node, wait = process.node, timedelta(seconds=10)
            calls: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
                "work": lambda: node.queue.wait_for_work(wait),
                "vacancy": lambda: node.election.wait_for_vacancy(wait),
                "take": lambda: node.deliveries.take(WORKER_1, 1, wait=wait),
            }
            waiting = asyncio.create_task(calls[part]())
            await cluster.pass_time(2.5)
            process.primary_way.begin()
            await cluster.pass_time(2)
            assert not waiting.done()
            await _end_wait(cluster, part)
            assert await waiting
            assert cluster.clock.monotonic() == pytest.approx(4.5, abs=0.1)

    run_virtually(main())


def test_a_wait_follows_when_another_call_has_moved_the_switch() -> None:
    async def main() -> None:
        cluster = Cluster()
        async with cluster.start() as process:
            waiting = asyncio.create_task(process.node.queue.wait_for_work(timedelta(seconds=10)))
            await process.primary_way.wait_for_calls(1)
            process.primary_way.inject("queue.push", Fault.GONE)  # the wait itself is not told
            await process.node.queue.push(make_entries(make_ids(1)))
            assert await waiting
            assert cluster.clock.monotonic() < 1.5

    run_virtually(main())


@pytest.mark.parametrize("part", ["work", "vacancy"])
def test_a_wait_that_changed_sides_ends_in_its_time(part: str) -> None:
    async def main() -> None:
        cluster = Cluster()
        async with cluster.start() as process:
            node, wait = process.node, timedelta(seconds=10)
            call = node.queue.wait_for_work if part == "work" else node.election.wait_for_vacancy
            waiting = asyncio.create_task(call(wait))
            await cluster.pass_time(2.5)
            process.primary_way.begin()
            assert not await waiting
            assert cluster.clock.monotonic() == pytest.approx(10, abs=0.1)

    run_virtually(main())


async def _end_wait(cluster: Cluster, part: str) -> None:
    fallback = join_memory(cluster.fallback)
    if part == "work":
        await fallback.queue.wake()
    elif part == "take":
        await fallback.deliveries.assign(make_attempts(make_ids(1)))
    else:
        lease = await fallback.election.campaign(NODE_A, timedelta(seconds=5))
        assert lease is not None
        await fallback.election.resign(NODE_A, lease)
