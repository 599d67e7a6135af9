"""Deadlines that one timer watches: who is late is ended, and who is ended by others is told so."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.infrastructure.executors import deadlines as module
from rota.infrastructure.executors.deadlines import Deadlines, Watch
from tests.support.clock import settle

SOON, FAR = 0.02, 3600.0  # seconds


@pytest.fixture
async def deadlines() -> AsyncIterator[Deadlines]:
    made = Deadlines()
    yield made
    made.close()


async def wait(deadlines: Deadlines, left: float, *, until: asyncio.Event | None = None) -> str:
    """Wait for the event, or for ever, at most for so long."""
    try:
        with Watch(deadlines, left):
            await (until or asyncio.Event()).wait()
            return "done"
    except TimeoutError:
        return "late"


async def test_who_is_late_is_ended_and_nobody_else(deadlines: Deadlines) -> None:
    over = asyncio.Event()
    others = [asyncio.create_task(wait(deadlines, FAR, until=over)) for _ in range(3)]
    assert await wait(deadlines, SOON) == "late"
    over.set()
    assert await asyncio.gather(*others) == ["done"] * 3


async def test_a_deadline_in_the_past_ends_what_waits(deadlines: Deadlines) -> None:
    assert await wait(deadlines, -FAR) == "late"


async def test_what_need_not_wait_is_never_late(deadlines: Deadlines) -> None:
    over = asyncio.Event()
    over.set()
    assert await wait(deadlines, -FAR, until=over) == "done"


async def test_the_task_of_a_late_attempt_can_go_on(deadlines: Deadlines) -> None:
    assert [await wait(deadlines, SOON) for _ in range(2)] == ["late", "late"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_nearer_and_farther_deadlines_are_met_in_their_order(deadlines: Deadlines) -> None:
    ended: list[int] = []

    async def note(number: int) -> None:
        assert await wait(deadlines, SOON * number) == "late"
        ended.append(number)

    await asyncio.gather(*(note(number) for number in (3, 1, 2)))
    assert ended == [1, 2, 3]


async def test_a_cancel_by_others_is_none_of_ours(deadlines: Deadlines) -> None:
    waiting = asyncio.create_task(wait(deadlines, FAR))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_cancel_by_others_at_the_very_deadline_stays_one(deadlines: Deadlines) -> None:
    waiting = asyncio.create_task(wait(deadlines, -FAR))
    asyncio.get_running_loop().call_soon(waiting.cancel)
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_what_has_ended_is_forgotten(deadlines: Deadlines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLACK", 10)
    over = asyncio.Event()
    over.set()
    for _ in range(100):
        assert await wait(deadlines, FAR, until=over) == "done"
    assert len(deadlines._heap) <= 12
    assert await wait(deadlines, SOON) == "late"
