"""The fake clock itself."""

import asyncio
from datetime import timedelta

from tests.support.clock import START, FakeClock

SECOND = timedelta(seconds=1)


async def test_time_stands_still_until_it_is_moved() -> None:
    clock = FakeClock()
    assert (clock.now(), clock.monotonic()) == (START, 0.0)
    clock.advance(SECOND)
    assert (clock.now(), clock.monotonic()) == (START + SECOND, 1.0)


async def test_a_sleeper_wakes_at_its_time_and_not_before() -> None:
    clock = FakeClock()
    sleeper = asyncio.create_task(clock.sleep(2 * SECOND))
    await clock.run(SECOND)
    assert not sleeper.done()
    await clock.run(SECOND)
    assert sleeper.done()


async def test_sleepers_act_in_the_order_of_their_deadlines_at_the_right_moment() -> None:
    clock = FakeClock()
    seen: list[tuple[str, float]] = []

    async def tick(name: str, pause: timedelta) -> None:
        for _ in range(2):
            await clock.sleep(pause)
            seen.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(tick("slow", 3 * SECOND)), asyncio.create_task(tick("quick", 2 * SECOND))]
    await clock.run(10 * SECOND)
    await asyncio.gather(*tasks)
    assert seen == [("quick", 2.0), ("slow", 3.0), ("quick", 4.0), ("slow", 6.0)]


async def test_a_cancelled_sleeper_is_passed_over() -> None:
    clock = FakeClock()
    sleeper = asyncio.create_task(clock.sleep(SECOND))
    await clock.run(timedelta(0))
    sleeper.cancel()
    await clock.run(2 * SECOND)
    assert sleeper.cancelled()


async def test_sleeping_for_no_time_lets_others_run_and_returns() -> None:
    clock = FakeClock()
    await clock.sleep(timedelta(0))
    assert clock.monotonic() == 0.0
