"""The real clock and real chance."""

from datetime import UTC, timedelta

from rota.infrastructure.system import SystemClock, SystemRandom


async def test_the_clock_is_in_utc_and_sleeps_at_least_as_long_as_asked() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(timedelta(milliseconds=10))
    assert clock.monotonic() - before >= 0.009  # the loop's timer may end a clock tick early
    assert clock.now().tzinfo is UTC


def test_chance_is_at_least_zero_and_below_one() -> None:
    random = SystemRandom()
    chances = [random.chance() for _ in range(1000)]
    assert all(0 <= chance < 1 for chance in chances)
    assert len(set(chances)) > 900
