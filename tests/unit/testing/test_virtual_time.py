"""Time that passes at once."""

import asyncio
from datetime import timedelta

import pytest

from rota.testing.virtual_time import START, VirtualClock, run_virtually
from tests.support.clock import settle

HOUR = timedelta(hours=1)


def test_an_hour_passes_at_once() -> None:
    async def main() -> tuple[float, timedelta]:
        clock = VirtualClock(asyncio.get_running_loop())
        await clock.sleep(HOUR)
        return clock.monotonic(), clock.now() - START

    passed, on_the_wall = run_virtually(main())
    assert passed == pytest.approx(3600)
    assert on_the_wall.total_seconds() == pytest.approx(3600)


def test_time_stands_still_while_something_can_run() -> None:
    async def main() -> float:
        await settle()
        return asyncio.get_running_loop().time()

    assert run_virtually(main()) == 0


def test_sleepers_wake_in_the_order_of_their_deadlines() -> None:
    async def main() -> list[str]:
        clock, woken = VirtualClock(asyncio.get_running_loop()), list[str]()

        async def sleep(name: str, hours: int) -> None:
            await clock.sleep(hours * HOUR)
            woken.append(name)

        await asyncio.gather(sleep("third", 3), sleep("first", 1), sleep("second", 2))
        return woken

    assert run_virtually(main()) == ["first", "second", "third"]


def test_timeouts_take_part() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 60)
        return asyncio.get_running_loop().time()

    assert run_virtually(main()) == pytest.approx(60)


def test_two_runs_go_alike() -> None:
    async def main() -> list[tuple[int, float]]:
        clock, seen = VirtualClock(asyncio.get_running_loop()), list[tuple[int, float]]()

        async def tick(number: int) -> None:
            for _ in range(5):
                await clock.sleep(timedelta(seconds=number / 3))
                seen.append((number, clock.monotonic()))

        await asyncio.gather(*map(tick, range(1, 6)))
        return seen

    assert run_virtually(main()) == run_virtually(main())


def test_a_deadlock_is_told_rather_than_waited_for() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    waiting = main()
    with pytest.raises(RuntimeError, match="deadlock"):
        run_virtually(waiting)


@pytest.mark.parametrize("days", [0.1, 193, 195, 1000, 100_000])
def test_the_longest_sleeps_end_at_once_and_on_time(days: float) -> None:
    async def main() -> tuple[float, float]:
        clock = VirtualClock(asyncio.get_running_loop())
        await clock.sleep(timedelta(days=days))
        slept = clock.monotonic()
        await clock.sleep(timedelta(milliseconds=1))
        return slept, clock.monotonic() - slept

    slept, after = run_virtually(main())
    assert slept == days * 86_400
    assert after == pytest.approx(0.001, abs=1e-4)
