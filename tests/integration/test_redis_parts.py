"""What may be too much for one answer of a Redis."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import MAX_ID
from rota.domain.task import SUCCESS
from rota.infrastructure.coordination.redis_client import Part, RedisClient
from rota.infrastructure.store.redis.space import LONG_AT_ONCE, RedisSpace
from rota.infrastructure.store.redis.store import redis_store
from rota.testing.contract.store_backend import add, end, grant, make_tasks
from tests.support.names import fresh_name
from tests.support.patience import PATIENT_REDIS
from tests.support.servers.redis import RedisServer

LONG = '{"text": "' + "x" * 5_000 + '"}'


class CountingClient(RedisClient):
    """Knows how many long payloads each command has asked for."""

    def __init__(self, url: str) -> None:
        super().__init__(url, PATIENT_REDIS, unavailable=StoreUnavailableError)
        self.payloads = [0]

    async def command(self, *parts: Part) -> Any:
        if parts[0] == "MGET":
            self.payloads.append(sum(str(part).endswith(":payload") for part in parts))
        return await super().command(*parts)


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


async def test_a_report_reads_no_payloads(client: CountingClient, space: RedisSpace) -> None:
    store = redis_store(space)
    tasks = make_tasks(3, payload=LONG)
    await end(store, await grant(store, await add(store, tasks)))
    facts = await store.reports.list_facts(after=0, before=MAX_ID, limit=10)
    assert [(one.id, one.status) for one in facts] == [(task.id, SUCCESS) for task in tasks]
    assert max(client.payloads) == 0
