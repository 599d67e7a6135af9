"""Several tasks at once."""

import asyncio

import pytest

from rota.application.task_group import count_cancels, task_group


async def fail_after(turn: asyncio.Event) -> None:
    await turn.wait()
    raise ValueError("it failed")


async def hang(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("hang")


async def test_one_that_fails_ends_the_others_and_leaves_no_mark_on_who_began_them() -> None:
    turn, ended = asyncio.Event(), list[str]()
    with pytest.raises(ExceptionGroup) as failures:
        async with task_group() as begin:
            _ = begin(fail_after(turn))
            _ = begin(hang(ended))
            turn.set()
    assert [str(one) for one in failures.value.exceptions] == ["it failed"]
    assert (ended, count_cancels()) == (["hang"], 0)


async def test_one_that_fails_ends_what_is_done_beside_it() -> None:
    turn = asyncio.Event()
    with pytest.raises(ExceptionGroup):
        async with task_group() as begin:
            _ = begin(fail_after(turn))
            turn.set()
            await asyncio.Event().wait()
    assert count_cancels() == 0


async def test_it_is_left_when_all_have_ended() -> None:
    turn, done = asyncio.Event(), list[int]()

    async def work(number: int) -> None:
        await turn.wait()
        done.append(number)

    async with task_group() as begin:
        for number in range(3):
            _ = begin(work(number))
        turn.set()
    assert done == [0, 1, 2]


async def test_whoever_is_told_to_end_ends_all() -> None:
    ended, begun = list[str](), asyncio.Event()

    async def run() -> None:
        async with task_group() as begin:
            _ = begin(hang(ended))
            begun.set()

    running = asyncio.create_task(run())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended == ["hang"]
