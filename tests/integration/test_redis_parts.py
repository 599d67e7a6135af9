"""What may be too much for one answer of a Redis."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from rota.application.ports.store import Store
from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import MAX_ID
from rota.domain.task import SUCCESS, Task
from rota.infrastructure.coordination.redis_client import Part, RedisClient
from rota.infrastructure.store.redis import documents
from rota.infrastructure.store.redis.documents import STEPS_TOGETHER
from rota.infrastructure.store.redis.space import LONG_AT_ONCE, RedisSpace
from rota.infrastructure.store.redis.store import redis_store
from rota.testing.contract.store_backend import (
    HOUR,
    NOON,
    add,
    add_one,
    end,
    find,
    grant,
    make_error,
    make_tasks,
    success_step,
    write,
)
from tests.support.names import fresh_name
from tests.support.patience import PATIENT_REDIS
from tests.support.servers.redis import RedisServer

LONG = '{"text": "' + "x" * 5_000 + '"}'


class CountingClient(RedisClient):
    """Knows how many long payloads, and errors, each message has asked for."""

    def __init__(self, url: str) -> None:
        super().__init__(url, PATIENT_REDIS, unavailable=StoreUnavailableError)
        self.payloads = [0]
        self.words = [0]

    async def command(self, *parts: Part) -> Any:
        if parts[0] == "MGET":
            self.payloads.append(sum(str(part).endswith(":payload") for part in parts))
        return await super().command(*parts)

    async def batch(self, commands: Sequence[Sequence[Part]], *, atomic: bool = False) -> list[Any]:
        self.words.append(sum(command[0] == "HGET" for command in commands))
        return await super().batch(commands, atomic=atomic)


@pytest.fixture
async def client(redis_server: RedisServer) -> AsyncIterator[CountingClient]:
    opened = CountingClient(redis_server.url())
    yield opened
    await opened.close()


@pytest.fixture
def space(client: CountingClient) -> RedisSpace:
    return RedisSpace(client, fresh_name("parts"))


async def test_long_payloads_are_read_in_parts(client: CountingClient, space: RedisSpace) -> None:
    store = redis_store(space)
    tasks = make_tasks(LONG_AT_ONCE + 1, payload=LONG)
    await add(store, tasks)
    assert await store.tasks.load([task.id for task in tasks]) == {task.id: task for task in tasks}
    assert max(client.payloads) == LONG_AT_ONCE


async def fail(store: Store, task: Task, *, times: int) -> Task:
    """Let attempts fail, each with a long traceback."""
    error = make_error(detail="Traceback: " + "x" * 3_000)
    for _ in range(times):
        [task] = await grant(store, [task])
        [task] = await write(store, [task], steps=[task.state.retried(error, at=NOON, due_at=NOON)])
    return task


async def test_a_text_stays_short_however_often_its_task_fails(client: CountingClient, space: RedisSpace) -> None:
    store = redis_store(space)
    task = await fail(store, await add_one(store), times=50)
    assert await client.command("STRLEN", space.task(task.id)) < 4_000
    assert len(await store.logs.read(task.id)) == 101
    [task] = await grant(store, [task])
    [task] = await write(store, [task], steps=[success_step(task, data=LONG)])
    assert await client.command("STRLEN", space.task(task.id)) < 4_000
    assert await find(store, task) == task
    assert await store.tasks.purge(completed_before=NOON + HOUR, limit=10) == 1
    assert await client.command("KEYS", space.key("task:*")) == []


async def test_a_long_text_of_an_earlier_release_is_read_and_gets_short(
    client: CountingClient, space: RedisSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = redis_store(space)
    with monkeypatch.context() as earlier:
        earlier.setattr(documents, "LONG_LINE", MAX_ID)
        earlier.setattr(documents, "STEPS_TOGETHER", MAX_ID)
        task = await fail(store, await add_one(store), times=20)
    assert await client.command("STRLEN", space.task(task.id)) > 60_000
    record = await store.logs.read(task.id)
    assert await find(store, task) == task
    task = await fail(store, task, times=STEPS_TOGETHER)
    assert await client.command("STRLEN", space.task(task.id)) < 4_000
    assert await find(store, task) == task
    assert (await store.logs.read(task.id))[: len(record)] == record


async def test_long_errors_are_read_in_parts_and_not_for_reports(client: CountingClient, space: RedisSpace) -> None:
    store, error = redis_store(space), make_error(detail="x" * 3_000)
    tasks = await grant(store, await add(store, make_tasks(LONG_AT_ONCE + 1)))
    tasks = await write(store, tasks, steps=[task.state.failed(error, at=NOON) for task in tasks])
    assert len(await store.reports.load_facts([task.id for task in tasks])) == len(tasks)
    assert max(client.words) == 0
    assert await store.tasks.load([task.id for task in tasks]) == {task.id: task for task in tasks}
    assert max(client.words) == LONG_AT_ONCE


async def test_a_report_reads_no_payloads(client: CountingClient, space: RedisSpace) -> None:
    store = redis_store(space)
    tasks = make_tasks(3, payload=LONG)
    await end(store, await grant(store, await add(store, tasks)))
    facts = await store.reports.list_facts(after=0, before=MAX_ID, limit=10)
    assert [(one.id, one.status) for one in facts] == [(task.id, SUCCESS) for task in tasks]
    assert max(client.payloads) == 0
