"""How the loops of a worker wake each other."""

import asyncio
from datetime import timedelta

from rota.application.work.nudge import Nudge
from tests.support.virtual import pass_time, virtually

LONGEST = timedelta(seconds=30)


@virtually
async def test_a_wait_is_over_when_its_time_is_or_at_the_next_nudge() -> None:
    nudge, loop = Nudge(), asyncio.get_running_loop()
    began = loop.time()
    await nudge.wait(LONGEST)
    assert loop.time() - began == LONGEST.total_seconds()
    loop.call_later(1.0, nudge.give)
    await nudge.wait(LONGEST)
    assert loop.time() - began == LONGEST.total_seconds() + 1.0


@virtually
async def test_a_nudge_that_comes_while_nobody_waits_is_kept_once() -> None:
    nudge, loop = Nudge(), asyncio.get_running_loop()
    nudge.give()
    nudge.give()
    began = loop.time()
    await nudge.wait(LONGEST)
    assert loop.time() == began
    await nudge.wait(LONGEST)
    assert loop.time() - began == LONGEST.total_seconds()


@virtually
async def test_to_wait_takes_no_task_besides_the_one_that_waits() -> None:
    nudge = Nudge()
    waiting = asyncio.create_task(nudge.wait(LONGEST))
    await pass_time()
    assert len(asyncio.all_tasks()) == 2, "this one, and the one that waits"
    nudge.give()
    await waiting


@virtually
async def test_who_is_cancelled_waits_no_more_and_the_next_may() -> None:
    nudge = Nudge()
    waiting = asyncio.create_task(nudge.wait(LONGEST))
    await pass_time()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    nudge.give()
    await nudge.wait(LONGEST)
