"""Single writes that share a commit."""

import asyncio
from collections.abc import Sequence

import pytest

from rota.application.group_commit import LANES, MOST_IN_BATCH, MOST_WAITING, GroupCommit
from rota.domain.errors import ConflictError, StoreUnavailableError
from tests.support.virtual import pass_time, virtually


class Writer:
    """A store that takes a second for a batch, and notes what it was given."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.refused: set[int] = set()
        self.error: Exception | None = None

    async def __call__(self, items: Sequence[int]) -> list[str]:
        self.batches.append(list(items))
        await pass_time(1)
        if self.error is not None:
            raise self.error
        if bad := self.refused.intersection(items):
            raise ConflictError(f"{bad} is refused")
        return [f"wrote {item}" for item in items]


@virtually
async def test_a_lone_write_waits_for_no_company() -> None:
    writer = Writer()
    assert await GroupCommit(writer)(7) == "wrote 7"
    assert asyncio.get_running_loop().time() == 1


@virtually
async def test_what_arrives_while_the_lanes_are_busy_shares_a_batch() -> None:
    writer = Writer()
    group = GroupCommit(writer)
    answers = await asyncio.gather(*(group(number) for number in range(100)))
    assert answers == [f"wrote {number}" for number in range(100)]
    assert sorted(map(len, writer.batches)) == [1, 1, 98] or sorted(map(len, writer.batches)) == [100]


@virtually
async def test_a_batch_is_bounded() -> None:
    writer = Writer()
    group = GroupCommit(writer)
    await asyncio.gather(*(group(number) for number in range(3 * MOST_IN_BATCH)))
    assert max(map(len, writer.batches)) == MOST_IN_BATCH


@virtually
async def test_a_refused_write_fails_alone() -> None:
    writer = Writer()
    writer.refused = {3}
    group = GroupCommit(writer)
    answers = await asyncio.gather(*(group(number) for number in range(5)), return_exceptions=True)
    assert [isinstance(answer, ConflictError) for answer in answers] == [False, False, False, True, False]


@virtually
async def test_a_refused_write_costs_the_others_few_commits() -> None:
    writer = Writer()
    writer.refused = {333}
    group = GroupCommit(writer)
    answers = await asyncio.gather(*(group(number) for number in range(MOST_IN_BATCH)), return_exceptions=True)
    assert [number for number, answer in enumerate(answers) if isinstance(answer, ConflictError)] == [333]
    assert len(writer.batches) <= 20


@virtually
async def test_when_the_store_is_away_everyone_hears_it() -> None:
    writer = Writer()
    writer.error = StoreUnavailableError("away")
    group = GroupCommit(writer)
    answers = await asyncio.gather(*(group(number) for number in range(5)), return_exceptions=True)
    assert all(isinstance(answer, StoreUnavailableError) for answer in answers)


@virtually
async def test_a_defect_in_the_write_leaves_nobody_waiting() -> None:
    writer = Writer()
    writer.error = ZeroDivisionError("a defect")
    group = GroupCommit(writer)
    with pytest.raises(StoreUnavailableError, match="broke off"):
        await group(1)
    with pytest.raises(ZeroDivisionError):
        await group.close()


@virtually
async def test_what_waits_behind_a_defect_is_still_written() -> None:
    writer = Writer()
    writer.error = ZeroDivisionError("a defect")
    group = GroupCommit(writer)
    broken = []
    for number in range(LANES):
        broken.append(asyncio.ensure_future(group(number)))
        await pass_time(0)  # so that each has a lane of its own
    waiting = [asyncio.ensure_future(group(number)) for number in range(10, 13)]
    assert all(isinstance(end, StoreUnavailableError) for end in await asyncio.gather(*broken, return_exceptions=True))
    writer.error = None
    async with asyncio.timeout(5):
        assert await asyncio.gather(*waiting) == ["wrote 10", "wrote 11", "wrote 12"]


@virtually
async def test_too_many_waiting_writes_are_refused_at_once() -> None:
    writer = Writer()
    group = GroupCommit(writer)
    waiting = [asyncio.ensure_future(group(number)) for number in range(MOST_WAITING)]
    await pass_time(0)
    with pytest.raises(StoreUnavailableError, match="waiting for the store"):
        await group(-1)
    await asyncio.gather(*waiting)


@virtually
async def test_a_caller_that_leaves_does_not_disturb_the_others() -> None:
    writer = Writer()
    group = GroupCommit(writer)
    leaver, stayer = asyncio.ensure_future(group(1)), asyncio.ensure_future(group(2))
    await pass_time(0.5)
    leaver.cancel()
    assert await stayer == "wrote 2"
    writer.error = StoreUnavailableError("away")
    leaver, stayer = asyncio.ensure_future(group(1)), asyncio.ensure_future(group(2))
    await pass_time(0.5)
    leaver.cancel()
    with pytest.raises(StoreUnavailableError):
        await stayer
