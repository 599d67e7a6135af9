"""The store's time, as a node knows it."""

from datetime import datetime, timedelta

import pytest

from rota.application.store_time import RESYNC_EVERY, StoreTime
from rota.domain.errors import StoreUnavailableError
from rota.infrastructure.store.memory.store import memory_store
from rota.infrastructure.store.memory.tasks import MemoryTaskStore
from rota.testing.faults import Fault, Faults
from rota.testing.faulty_store import faulty_store
from tests.support.clock import START, FakeClock

SECOND = timedelta(seconds=1)


class SlowStore(MemoryTaskStore):
    """Reads its clock, and then takes a while to answer."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.takes = timedelta(0)
        self.offset = timedelta(0)

    async def now(self) -> datetime:
        answer = self._clock.now() + self.offset
        self._clock.advance(self.takes)
        return answer


async def test_before_the_store_was_asked_there_is_no_time() -> None:
    clock = FakeClock()
    with pytest.raises(StoreUnavailableError):
        StoreTime(memory_store(clock).tasks, clock).now()


async def test_between_two_answers_the_time_goes_on() -> None:
    clock = FakeClock()
    time = StoreTime(memory_store(clock).tasks, clock)
    await time.sync()
    clock.advance(5 * SECOND)
    assert time.now() == START + 5 * SECOND


async def test_a_slow_answer_makes_the_estimate_late_never_early() -> None:
    clock = FakeClock()
    store = SlowStore(clock)
    time = StoreTime(store, clock)
    store.takes = 3 * SECOND
    await time.sync()
    assert clock.now() - time.now() == 3 * SECOND


async def test_a_quick_answer_corrects_a_slow_one_and_a_slow_one_does_not_undo_it() -> None:
    clock = FakeClock()
    store = SlowStore(clock)
    time = StoreTime(store, clock)
    store.takes = 3 * SECOND
    await time.sync()
    store.takes = timedelta(0)
    await time.sync()
    assert time.now() == clock.now()
    store.takes = 3 * SECOND
    await time.sync()
    assert time.now() == clock.now()


@pytest.mark.parametrize("direction", [-1, 1])
async def test_a_clock_that_was_set_is_followed(direction: int) -> None:
    clock = FakeClock()
    store = SlowStore(clock)
    time = StoreTime(store, clock)
    await time.sync()
    store.offset = direction * (RESYNC_EVERY + SECOND)
    await time.sync()
    assert time.now() == clock.now() + store.offset


async def test_a_drift_is_corrected_with_every_answer() -> None:
    clock = FakeClock()
    store = SlowStore(clock)
    time = StoreTime(store, clock)
    for _ in range(100):
        await time.sync()
        clock.advance(RESYNC_EVERY)
        store.offset -= timedelta(milliseconds=1)  # this node's clock is fast
    await time.sync()
    assert time.now() == clock.now() + store.offset


async def test_while_the_store_is_away_the_last_answer_is_carried_on() -> None:
    clock, faults = FakeClock(), Faults()
    time = StoreTime(faulty_store(memory_store(clock), faults).tasks, clock)
    await time.sync()
    clock.advance(SECOND)
    faults.inject("tasks.now", Fault.GONE)
    with pytest.raises(StoreUnavailableError):
        await time.sync()
    assert time.now() == START + SECOND
