"""What may be too much for one answer of a Redis."""

from typing import Any

import pytest

from rota.domain.errors import StoreUnavailableError
from rota.infrastructure.coordination.redis_client import Part, RedisClient
from rota.infrastructure.store.redis.space import LONG_AT_ONCE, RedisSpace
from rota.infrastructure.store.redis.store import redis_store
from rota.testing.contract.store_backend import add, make_tasks
from tests.support.names import fresh_name
from tests.support.patience import PATIENT_REDIS
from tests.support.servers.redis import RedisServer


async def test_long_payloads_are_read_in_parts(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client = RedisClient(redis_server.url(), PATIENT_REDIS, unavailable=StoreUnavailableError)
    store = redis_store(RedisSpace(client, fresh_name("parts")))
    tasks = make_tasks(LONG_AT_ONCE + 1, payload='{"text": "' + "x" * 5_000 + '"}')
    await add(store, tasks)
    most, command = [0], client.command

    async def ask_and_count(*parts: Part) -> Any:
        most.append(sum(str(part).endswith(":payload") for part in parts))
        return await command(*parts)

    monkeypatch.setattr(client, "command", ask_and_count)
    assert await store.tasks.load([task.id for task in tasks]) == {task.id: task for task in tasks}
    assert max(most) == LONG_AT_ONCE
    await client.close()
