"""What tasks bring along to a queue in Redis: never so much that its memory would count."""

from collections.abc import AsyncIterator, Sequence
from secrets import token_hex

import pytest

from rota.application.ports.coordinator import TaskQueue
from rota.domain.ids import TaskId
from rota.domain.priority import HIGH, LEVELS
from rota.domain.queue import MOST_BROUGHT, QueueEntry
from rota.domain.task import LiveTask
from rota.infrastructure.coordination.redis.coordinator import redis_coordinator
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.testing.contract.coordinator_backend import make_added, make_entries, make_ids
from tests.support.patience import PATIENT_REDIS
from tests.support.servers.redis import RedisServer

ORDER = tuple(reversed(LEVELS))


@pytest.fixture
async def queue(redis_server: RedisServer) -> AsyncIterator[TaskQueue]:
    client = RedisClient(redis_server.url(), PATIENT_REDIS)
    yield redis_coordinator(client, f"brought-{token_hex(8)}").queue
    await client.close()


async def push(queue: TaskQueue, task_ids: Sequence[TaskId]) -> dict[TaskId, LiveTask]:
    """Push tasks that were just added, as which they are given back."""
    added = {task_id: make_added(task_id) for task_id in task_ids}
    await queue.push([QueueEntry(task_id, HIGH, added=added[task_id]) for task_id in task_ids])
    return added


async def test_the_tasks_of_a_batch_bring_themselves_along(queue: TaskQueue) -> None:
    added = await push(queue, make_ids(500))
    assert (await queue.take(500, order=ORDER)).added == added


async def test_in_a_long_queue_a_task_is_an_id_alone(queue: TaskQueue) -> None:
    ids = make_ids(MOST_BROUGHT + 4)
    await queue.push(make_entries(ids[:-3], priority=HIGH))
    await push(queue, ids[-3:-2])
    assert (await queue.take(len(ids), order=ORDER)).added == {}
    await push(queue, ids[-2:-1])  # it goes by the push before, and finds the queue short
    added = await push(queue, ids[-1:])
    assert (await queue.take(2, order=ORDER)).added == added
