"""Following the record of a task."""

import asyncio
from datetime import timedelta

import pytest

from rota.application.follow import AT_ONCE, LOOK_EVERY, FollowLogs
from rota.application.steer import SteerTasks
from rota.application.submit import SubmitTasks
from rota.application.watch import TaskWatch
from rota.domain.errors import NotFoundError
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId
from rota.domain.log import LogEntry, place
from rota.domain.task import LogKind
from tests.support.builders import EMAIL, a_config, a_submission
from tests.support.virtual import Bench, a_bench, pass_time, virtually


async def a_follower() -> tuple[Bench, FollowLogs, TaskId]:
    bench = await a_bench()
    await bench.node.store.configs.put(a_config(EMAIL))
    added = await SubmitTasks(bench.node).submit(a_submission())
    watch = TaskWatch(bench.node.store.tasks, bench.node.coordinator.signals)
    return bench, FollowLogs(bench.node.store.tasks, bench.node.store.logs, watch), added.task_id


async def log(bench: Bench, task_id: TaskId, *, lines: range) -> None:
    entries = [
        LogEntry(task_id=task_id, seq=place(1, line), kind=LogKind.INFO, at=bench.clock.now(), message=str(line))
        for line in lines
    ]
    await bench.node.store.logs.append(entries)


async def read_all(follow: FollowLogs, task_id: TaskId, *, after: int = 0) -> list[str]:
    return [entry.message async for entry in follow.follow(task_id, DEFAULT_TENANT, after=after)]


@virtually
async def test_lines_come_as_they_are_written_until_the_task_has_ended() -> None:
    bench, follow, task_id = await a_follower()
    reading = asyncio.ensure_future(read_all(follow, task_id))
    await pass_time(5)
    await log(bench, task_id, lines=range(1, 4))
    await pass_time(5)
    assert not reading.done()
    await SteerTasks(bench.node).cancel(task_id, DEFAULT_TENANT, reason="done")
    assert await reading == ["", "1", "2", "3", "done"]


@virtually
async def test_more_lines_than_are_read_at_once_all_come_in_order() -> None:
    bench, follow, task_id = await a_follower()
    number = 2 * AT_ONCE + 10
    await log(bench, task_id, lines=range(1, number))
    await SteerTasks(bench.node).cancel(task_id, DEFAULT_TENANT)
    assert [message for message in await read_all(follow, task_id) if message] == [str(n) for n in range(1, number)]
    assert await read_all(follow, task_id, after=place(1, number - 2)) == [str(number - 1), ""]


@virtually
async def test_news_of_the_task_is_heard_before_the_next_look() -> None:
    bench, follow, task_id = await a_follower()
    listening = asyncio.ensure_future(bench.node.loops.keep("listen", follow.watch.listen))
    reading = asyncio.ensure_future(read_all(follow, task_id))
    await pass_time(0.1)
    began = bench.clock.monotonic()
    await SteerTasks(bench.node).cancel(task_id, DEFAULT_TENANT)
    await reading
    assert bench.clock.monotonic() - began < LOOK_EVERY / timedelta(seconds=1) / 2
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


@virtually
async def test_what_is_in_another_tenant_cannot_be_followed() -> None:
    _, follow, task_id = await a_follower()
    with pytest.raises(NotFoundError):
        await follow.read(task_id, TenantId("others"), after=0, limit=10)
    assert len(await follow.read(task_id, DEFAULT_TENANT, after=0, limit=10)) == 1


@virtually
async def test_two_who_follow_one_task_do_not_get_in_each_others_way() -> None:
    bench, follow, task_id = await a_follower()
    readers = [asyncio.ensure_future(read_all(follow, task_id)) for _ in range(2)]
    await pass_time(0.5)
    readers[0].cancel()
    await pass_time(0.1)
    await SteerTasks(bench.node).cancel(task_id, DEFAULT_TENANT)
    assert len(await readers[1]) == 2
