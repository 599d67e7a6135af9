import asyncio
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from rota.infrastructure.store.etcd.unison import GRAIN, Unison
from tests.support.clock import FakeClock

SIGN = "workers"


async def give_signs(clock: FakeClock, *, first_after: timedelta, every: timedelta) -> list[datetime]:
    """When one process speaks that says four times that it lives."""
    spoken, unison = list[datetime](), Unison(clock)
    await clock.sleep(first_after)
    for _ in range(4):
        await unison.join_in(SIGN)
        spoken.append(clock.now())
        await clock.sleep(every)
    return spoken


async def run_both(clock: FakeClock, *, every: timedelta) -> tuple[list[datetime], list[datetime]]:
    starts = (timedelta(milliseconds=30), timedelta(milliseconds=170))
    both = [asyncio.create_task(give_signs(clock, first_after=start, every=every)) for start in starts]
    await clock.run(every * 10)
    one, other = await asyncio.gather(*both)
    return one, other


async def test_processes_that_began_apart_speak_together() -> None:
    one, other = await run_both(FakeClock(), every=timedelta(seconds=3))
    assert one[0] != other[0], "the first sign waits for nobody"
    assert one[1:] == other[1:]


@pytest.mark.parametrize("every", [timedelta(seconds=3), timedelta(seconds=1), timedelta(milliseconds=100)])
async def test_no_sign_is_held_up_for_more_than_a_tenth_of_the_time_since_the_last(every: timedelta) -> None:
    for spoken in await run_both(FakeClock(), every=every):
        gaps = [later - earlier for earlier, later in pairwise(spoken)]
        assert max(gaps) <= every + min(every / 10, GRAIN)


async def test_signs_of_another_kind_do_not_count() -> None:
    clock = FakeClock()
    unison = Unison(clock)
    await unison.join_in("processes")
    clock.advance(timedelta(seconds=10.1))
    await unison.join_in(SIGN)  # would wait for ever
