"""Holding a lock while a block runs: how it is taken, kept, lost and given back."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from rota.application.hold import LEAST_TTL, MARGIN, RELEASE_WITHIN, RENEWALS, Lock
from rota.application.node import Node
from rota.application.ports.coordinator import Locks
from rota.domain.errors import ConflictError, InvalidError, LockLostError, UnavailableError
from rota.infrastructure.coordination.memory import MemoryState, join_memory
from rota.testing.faults import Fault, Faults
from rota.testing.faulty_coordinator import faulty_coordinator
from rota.testing.virtual_time import VirtualClock
from tests.support.virtual import a_bench, pass_time, virtually

NAME = "nightly-import"
TTL_S = 30.0
TTL = timedelta(seconds=TTL_S)
TRUSTED_S = TTL_S * (1 - 1 / MARGIN)


@dataclass
class Room:
    """Two processes, one of which hears the coordinator badly."""

    node: Node
    other: Node
    memory: MemoryState
    faults: Faults
    clock: VirtualClock
    heard: list[str] = field(default_factory=list)

    def lock(self, *, ttl: timedelta = TTL, most: timedelta | None = None) -> Lock:
        return Lock(node=self.node, name=NAME, ttl=ttl, most=most)

    def lock_elsewhere(self, *, most: timedelta | None = None) -> Lock:
        return Lock(node=self.other, name=NAME, ttl=TTL, most=most)

    async def work(
        self, seconds: float = 1000.0, *, stubborn_s: float = 0.0, under: AbstractAsyncContextManager[int] | None = None
    ) -> float:
        """Hold a lock for so long; when it had to end. `stubborn`: it takes no notice for a while."""
        try:
            async with under or self.lock():
                try:
                    await pass_time(seconds)
                except asyncio.CancelledError:
                    self.heard.append("cancelled")
                    if not stubborn_s:
                        raise
                    await pass_time(stubborn_s)
        except LockLostError as exc:
            assert exc.name == NAME
            self.heard.append("lost")
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling(), "no mark of it is left"
        return self.clock.monotonic()


async def a_room(wrap: Callable[[Locks, VirtualClock], Locks] = lambda locks, _: locks) -> Room:
    bench = await a_bench()
    memory = MemoryState(bench.clock)
    actual = join_memory(memory)
    heard = replace(actual, locks=wrap(actual.locks, bench.clock))
    node = replace(bench.node, coordinator=faulty_coordinator(heard, bench.faults))
    return Room(node, replace(bench.node, coordinator=actual), memory, bench.faults, bench.clock)


class SlowLocks:
    """Locks that do at once what they are asked, answer late, and take their time when they are told to end."""

    def __init__(
        self, inner: Locks, clock: VirtualClock, *, take_s: float = 0.0, renew_s: float = 0.0, end_s: float = 0.0
    ) -> None:
        self._inner, self._clock, self.take_s, self.renew_s, self.end_s = inner, clock, take_s, renew_s, end_s

    async def take(self, name: str, owner: str, *, ttl: timedelta) -> int | None:
        answer = await self._inner.take(name, owner, ttl=ttl)
        late, self.take_s = self.take_s, 0.0
        await self._clock.sleep(timedelta(seconds=late))
        return answer

    async def renew(self, name: str, owner: str, *, fence: int, ttl: timedelta) -> bool:
        answer = await self._inner.renew(name, owner, fence=fence, ttl=ttl)
        try:
            await self._clock.sleep(timedelta(seconds=self.renew_s))
        except asyncio.CancelledError:
            await self._clock.sleep(timedelta(seconds=self.end_s))
            raise
        return answer

    async def release(self, name: str, owner: str, *, fence: int) -> bool:
        return await self._inner.release(name, owner, fence=fence)


@virtually
async def test_whoever_waits_has_the_lock_soon_after_it_was_given_back_and_a_greater_fence() -> None:
    room = await a_room()
    fences: list[int] = []

    async def wait() -> None:
        async with room.lock_elsewhere() as fence:
            fences.append(fence)

    async with room.lock() as first:
        waiting = asyncio.create_task(wait())
        await pass_time(100)
        assert not fences
    await pass_time(1)
    assert fences > [first]
    await waiting


@virtually
async def test_a_lock_is_kept_for_as_long_as_the_block_runs() -> None:
    room = await a_room()
    async with room.lock():
        await pass_time(20 * TTL_S)
        assert await room.node.coordinator.locks.take(NAME, "another", ttl=TTL) is None
    assert await room.node.coordinator.locks.take(NAME, "another", ttl=TTL) is not None


@virtually
@pytest.mark.parametrize("most", [0.0, 0.3, 7.0])
async def test_one_waits_no_longer_than_asked_for(most: float) -> None:
    room = await a_room()
    async with room.lock():
        began_at = room.clock.monotonic()
        with pytest.raises(TimeoutError, match="lock nightly-import was not free in time"):
            async with room.lock_elsewhere(most=timedelta(seconds=most)):
                pass
        assert room.clock.monotonic() - began_at == pytest.approx(most)


@virtually
async def test_a_block_whose_lock_is_gone_is_cancelled() -> None:
    room = await a_room()
    working = asyncio.create_task(room.work())
    await pass_time(5)
    room.memory.forget()
    assert await working == pytest.approx(TTL_S / RENEWALS)
    assert room.heard == ["cancelled", "lost"]


@virtually
async def test_a_block_ends_before_another_can_have_its_lock() -> None:
    room = await a_room()
    working = asyncio.create_task(room.work())
    await pass_time(TTL_S / RENEWALS + 1)
    room.faults.inject("locks.renew", Fault.TIMEOUT, times=None)
    room.faults.inject("locks.release", Fault.TIMEOUT, times=None)
    async with room.lock_elsewhere():
        assert await working == pytest.approx(TTL_S / RENEWALS + TRUSTED_S)
        assert room.clock.monotonic() >= TTL_S / RENEWALS + TTL_S
    assert room.heard == ["cancelled", "lost"]


@virtually
async def test_an_answer_that_got_lost_ends_no_block() -> None:
    room = await a_room()
    room.faults.inject("locks.renew", Fault.TIMEOUT, times=3)
    assert await room.work(10 * TTL_S) == pytest.approx(10 * TTL_S)
    assert not room.faults.pending
    assert room.heard == []


@virtually
async def test_a_renewal_that_hangs_ends_the_block_in_time() -> None:
    room = await a_room(lambda locks, clock: SlowLocks(locks, clock, renew_s=1000))
    assert await room.work() == pytest.approx(TRUSTED_S)
    assert room.heard == ["cancelled", "lost"]


@virtually
async def test_a_block_hears_of_the_loss_before_a_renewal_that_hangs_has_ended() -> None:
    room = await a_room(lambda locks, clock: SlowLocks(locks, clock, renew_s=1000, end_s=5))
    working = asyncio.create_task(room.work())
    await pass_time(TRUSTED_S + 1)
    assert room.heard == ["cancelled"]
    assert await working == pytest.approx(TRUSTED_S + 5)
    assert room.heard == ["cancelled", "lost"]


@virtually
async def test_a_renewal_that_fails_for_good_ends_the_block() -> None:
    room = await a_room()
    room.faults.inject("locks.renew", Fault.REFUSED)
    assert await room.work() == pytest.approx(TTL_S / RENEWALS)
    assert room.heard == ["cancelled", "lost"]


@virtually
async def test_an_answer_that_comes_too_late_is_no_lock() -> None:
    room = await a_room(lambda locks, clock: SlowLocks(locks, clock, take_s=TRUSTED_S))
    async with room.lock():
        assert room.clock.monotonic() >= TRUSTED_S
        await pass_time(TTL_S)
        assert await room.other.coordinator.locks.take(NAME, "another", ttl=TTL) is None


@virtually
async def test_an_answer_that_comes_too_late_leaves_no_lock_behind() -> None:
    room = await a_room(lambda locks, clock: SlowLocks(locks, clock, take_s=TRUSTED_S))
    with pytest.raises(TimeoutError):
        await room.lock(most=timedelta(seconds=5)).__aenter__()
    assert await room.other.coordinator.locks.take(NAME, "another", ttl=TTL) is not None


@virtually
async def test_one_object_lets_one_block_in_at_a_time() -> None:
    room = await a_room()
    lock = room.lock()
    inside: list[int] = []

    async def work() -> None:
        async with lock as fence:
            assert not inside
            inside.append(fence)
            await pass_time(5)
            inside.remove(fence)

    await asyncio.gather(*(work() for _ in range(3)))
    assert room.clock.monotonic() == pytest.approx(15), "they follow each other at once"


@virtually
async def test_one_object_lets_nobody_in_beside_a_block_that_takes_no_notice_of_its_loss() -> None:
    room = await a_room()
    lock = room.lock()
    working = asyncio.create_task(room.work(stubborn_s=15, under=lock))
    await pass_time(5)
    room.memory.forget()
    async with lock:
        assert room.clock.monotonic() >= TTL_S / RENEWALS + 15
    await working


@virtually
async def test_one_waits_no_longer_than_asked_for_in_front_of_one_object_either() -> None:
    room = await a_room()
    lock = room.lock(most=timedelta(seconds=7))
    async with lock:
        with pytest.raises(TimeoutError, match="lock nightly-import was not free in time"):
            await asyncio.create_task(lock.__aenter__())
        assert room.clock.monotonic() == pytest.approx(7)


@virtually
async def test_the_wait_for_ones_turn_counts() -> None:
    room = await a_room()
    lock = room.lock(most=timedelta(seconds=7))
    async with lock:
        waiting = asyncio.create_task(lock.__aenter__())
        await pass_time(5)
    async with room.lock_elsewhere():
        with pytest.raises(TimeoutError):
            await waiting
    assert room.clock.monotonic() == pytest.approx(7)


@virtually
async def test_one_object_that_could_not_be_entered_can_be_entered_later() -> None:
    room = await a_room()
    lock = room.lock(most=timedelta(0))
    async with room.lock_elsewhere():
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await lock.__aenter__()
    await pass_time(1000)
    with pytest.raises(UnavailableError, match="no id slot"):
        await lock.__aenter__()
    await room.node.ids.keep()
    async with lock:
        assert await room.node.coordinator.locks.take(NAME, "another", ttl=TTL) is None


@virtually
async def test_the_second_block_of_one_object_hears_of_its_own_loss() -> None:
    room = await a_room()
    lock = room.lock()
    assert await room.work(1, under=lock) == pytest.approx(1)
    for heard in (["cancelled", "lost"], ["cancelled", "lost"] * 2):
        working = asyncio.create_task(room.work(under=lock))
        await pass_time(1)
        room.memory.forget()
        await working
        assert room.heard == heard
    assert await room.work(1, under=lock)
    assert room.heard == ["cancelled", "lost"] * 2


@virtually
async def test_a_lock_inside_of_itself_is_refused_and_the_outer_block_keeps_it() -> None:
    room = await a_room()
    lock = room.lock()
    async with lock:
        with pytest.raises(ConflictError, match="held by this task already"):
            await lock.__aenter__()
        assert await room.node.coordinator.locks.take(NAME, "another", ttl=TTL) is None
    async with lock:
        pass


@virtually
async def test_a_block_that_takes_no_notice_hears_of_it_at_its_end() -> None:
    room = await a_room()
    working = asyncio.create_task(room.work(stubborn_s=3))
    room.memory.forget()
    await pass_time(1)
    room.memory.forget()
    assert await working == pytest.approx(TTL_S / RENEWALS + 3)
    assert room.heard == ["cancelled", "lost"]


@virtually
async def test_what_a_block_raises_is_not_covered_up() -> None:
    room = await a_room()
    with pytest.raises(ZeroDivisionError):
        async with room.lock():
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        async with room.lock():
            room.memory.forget()
            try:
                await pass_time(TTL_S)
            except asyncio.CancelledError as exc:
                raise ZeroDivisionError from exc
    assert await room.node.coordinator.locks.take(NAME, "another", ttl=TTL) is not None


@virtually
async def test_whoever_is_cancelled_gives_the_lock_back() -> None:
    room = await a_room()
    working = asyncio.create_task(room.work())
    await pass_time(5)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert room.heard == ["cancelled"]
    assert await room.node.coordinator.locks.take(NAME, "another", ttl=TTL) is not None


@virtually
async def test_a_cancellation_beside_the_loss_is_not_swallowed() -> None:
    room = await a_room()
    working = asyncio.create_task(room.work(stubborn_s=3))
    await pass_time(1)
    room.memory.forget()
    await pass_time(TTL_S / RENEWALS)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


@virtually
async def test_a_lock_that_cannot_be_given_back_runs_out() -> None:
    room = await a_room()
    room.faults.inject("locks.release", Fault.TIMEOUT)
    assert await room.work(5) == pytest.approx(5)
    async with room.lock_elsewhere():
        assert room.clock.monotonic() <= TTL_S + RELEASE_WITHIN.total_seconds()
    assert room.heard == []


@virtually
async def test_what_is_no_lock_is_refused() -> None:
    room = await a_room()
    with pytest.raises(InvalidError, match="ttl"):
        room.lock(ttl=LEAST_TTL / 2)
    with pytest.raises(InvalidError, match="name"):
        Lock(node=room.node, name="no/name", ttl=TTL)
