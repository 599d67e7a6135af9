"""What tasks bring along to a queue in Redis: never so much that its memory would count, nor what cannot be read."""

from collections.abc import AsyncIterator, Sequence
from secrets import token_hex

import pytest

from rota.application.ports.coordinator import TaskQueue
from rota.domain.ids import TaskId
from rota.domain.priority import HIGH, LEVELS, URGENT
from rota.domain.queue import MOST_BROUGHT, QueueEntry
from rota.domain.task import LiveTask
from rota.infrastructure.coordination.redis.coordinator import redis_coordinator
from rota.infrastructure.coordination.redis.keys import RedisKeys
from rota.infrastructure.coordination.redis.queue import FEW
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.testing.contract.coordinator_backend import NOON, make_added, make_entries, make_ids
from tests.support.patience import PATIENT_REDIS
from tests.support.servers.redis import RedisServer

ORDER = tuple(reversed(LEVELS))


@pytest.fixture
async def client(redis_server: RedisServer) -> AsyncIterator[RedisClient]:
    client = RedisClient(redis_server.url(), PATIENT_REDIS)
    yield client
    await client.close()


@pytest.fixture
def prefix() -> str:
    return f"brought-{token_hex(8)}"


@pytest.fixture
def queue(client: RedisClient, prefix: str) -> TaskQueue:
    return redis_coordinator(client, prefix).queue


async def push(queue: TaskQueue, task_ids: Sequence[TaskId]) -> dict[TaskId, LiveTask]:
    """Push tasks that were just added, as which they are given back."""
    added = {task_id: make_added(task_id) for task_id in task_ids}
    await queue.push([QueueEntry(task_id, HIGH, added=added[task_id]) for task_id in task_ids])
    return added


async def test_the_tasks_of_a_batch_bring_themselves_along(queue: TaskQueue) -> None:
    first, *ids = make_ids(501)
    added = await push(queue, [first])  # from here on it knows how long the queue is
    added |= await push(queue, ids)
    assert (await queue.take(501, order=ORDER)).added == added


async def test_to_a_queue_that_a_process_does_not_know_it_brings_few_tasks_along(
    queue: TaskQueue, client: RedisClient, prefix: str
) -> None:
    first, second = (redis_coordinator(client, prefix).queue for _ in range(2))
    ids = make_ids(MOST_BROUGHT + 500)
    await queue.push(make_entries(ids[500:], priority=HIGH))
    await push(first, ids[FEW:500])
    few = await push(second, ids[:FEW])
    assert (await queue.take(len(ids), order=ORDER)).added == few


async def test_in_a_long_queue_a_task_is_an_id_alone(queue: TaskQueue) -> None:
    ids = make_ids(MOST_BROUGHT + 4)
    await queue.push(make_entries(ids[:-3], priority=HIGH))
    await push(queue, ids[-3:-2])
    assert (await queue.take(len(ids), order=ORDER)).added == {}
    await push(queue, ids[-2:-1])  # it goes by the push before, and finds the queue short
    added = await push(queue, ids[-1:])
    assert (await queue.take(2, order=ORDER)).added == added


async def test_what_goes_elsewhere_tells_nothing_of_a_long_queue(queue: TaskQueue) -> None:
    urgent, last, *ids = make_ids(MOST_BROUGHT + 3)
    await queue.push(make_entries(ids, priority=HIGH))
    await queue.push(make_entries([urgent], priority=URGENT))
    await push(queue, [last])
    await queue.push([QueueEntry(urgent, HIGH, due_at=NOON)])
    await push(queue, [last])
    assert (await queue.take(len(ids) + 3, order=ORDER)).added == {}


@pytest.mark.parametrize(
    "strange",
    [
        b"",
        b"hello",
        b"[]",
        b'["t","mail",0,1]',
        b'["t","mail",0,99999999999999999999,1]',
        b'["t",1,0,1,1]',
        b'["t","mail",10,1,1]',
        b'["t","mail",-1,1,1]',
    ],
)
async def test_what_a_task_brings_along_and_cannot_be_read_is_left_out(
    queue: TaskQueue, client: RedisClient, prefix: str, strange: bytes
) -> None:
    first, second = make_ids(2)
    level = RedisKeys(prefix).levels[HIGH]
    await client.command("RPUSH", level, b"%d %b" % (first, strange), b"%d %b" % (second, strange))
    taken = await queue.take(1, order=ORDER)
    assert (taken.task_ids, taken.added, taken.heads) == ((first,), {}, {HIGH: second})
