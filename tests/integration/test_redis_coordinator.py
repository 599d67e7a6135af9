"""What is particular to coordination on Redis: the public layout of the keys, round trips, lost answers."""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any

import msgspec
import pytest

from rota.application.ports.coordinator import Coordinator
from rota.domain.attempt import Attempt
from rota.domain.errors import ConfigError, CoordinatorUnavailableError
from rota.domain.events import Event, EventKind, Told
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.priority import HIGH, LEVELS, NORMAL, URGENT
from rota.domain.queue import QueueEntry
from rota.domain.worker import Heartbeat, Worker
from rota.infrastructure.coordination.redis.coordinator import open_redis_coordinator, redis_coordinator
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.coordination.redis_wire import Wire
from rota.testing.contract.coordinator_backend import hear
from tests.support.patience import PATIENT_REDIS
from tests.support.proxy import FaultyProxy
from tests.support.require import require_server
from tests.support.servers.redis import RedisServer

NODE = NodeId("node-a")
WORKER = WorkerId(7_100_000_000_000_000_001)
TASK = TaskId(7_000_000_000_000_000_001)
ATTEMPT = Attempt(TASK, 3, WORKER)
DUE = datetime(2030, 1, 1, tzinfo=UTC)
AT_ONCE = timedelta(0)
LEASE = timedelta(seconds=30)
BATCH = 500
ORDER = tuple(reversed(LEVELS))
STRANGE_IDS = (b"hello", b"", b"-7", b"7.0", b"0", str(2**63).encode(), b"9" * 5_000, b"\xff", "٣".encode())


@dataclass(frozen=True, slots=True)
class Bench:
    """A coordinator, and a client that sees what it wrote."""

    coordinator: Coordinator
    client: RedisClient
    prefix: str

    async def read(self, command: str, name: str, *more: str | bytes | int) -> object:
        return await self.client.command(command, f"{{{self.prefix}}}:{name}", *more)

    async def read_ttl(self, name: str) -> timedelta:
        milliseconds: int = await self.client.command("PTTL", f"{{{self.prefix}}}:{name}")
        return timedelta(milliseconds=milliseconds)

    async def list_names(self) -> set[str]:
        start = len(f"{{{self.prefix}}}:")
        keys: list[bytes] = await self.client.command("KEYS", f"{{{self.prefix}}}:*")
        return {key.decode()[start:] for key in keys}

    async def count_round_trips(self) -> int:
        """How many scripts came in over the wire so far, by name or in full."""
        stats: bytes = await self.client.command("INFO", "commandstats")
        return sum(map(int, re.findall(rb"cmdstat_(?:evalsha|eval):calls=(\d+)", stats)))


@pytest.fixture
async def bench(redis_server: RedisServer) -> AsyncIterator[Bench]:
    client = RedisClient(redis_server.url(), PATIENT_REDIS)
    prefix = f"layout-{token_hex(8)}"
    yield Bench(redis_coordinator(client, prefix), client, prefix)
    await client.close()


def number_of(told: Told) -> int:
    return int(told.id[1:].partition("-")[0])


async def save(server: RedisServer) -> None:
    client = RedisClient(server.url(), PATIENT_REDIS)
    await client.command("SAVE")
    await client.close()


async def use_everything(coordinator: Coordinator) -> None:
    """Leave a key of every kind."""
    await coordinator.election.campaign(NODE, LEASE)
    await coordinator.pool.register(Worker(id=WORKER, name="pod-1"), LEASE)
    await coordinator.queue.push([QueueEntry(TASK, level) for level in LEVELS])
    await coordinator.queue.push([QueueEntry(TASK, HIGH, DUE)])
    await coordinator.deliveries.assign([ATTEMPT, Attempt(TASK, 4, WORKER)])
    await coordinator.deliveries.take(WORKER, 1, wait=AT_ONCE)
    await coordinator.signals.request_cancel([TASK], ttl=LEASE)
    await coordinator.signals.publish([Event(kind=EventKind.TASK_CREATED, at=DUE, task_id=TASK)])
    await coordinator.locks.take("nightly", NODE, ttl=LEASE)


async def test_the_keys_have_their_public_names(bench: Bench) -> None:
    await use_everything(bench.coordinator)
    levels = {"queue:normal", "queue:high", "queue:urgent"} | {f"queue:{level}" for level in (1, 2, 3, 4, 6, 7, 8)}
    worker = {f"worker:{WORKER}{part}" for part in ("", ":queue", ":inflight", ":wake")}
    others = {"queue:delayed", "workers", "workers:changes", "scheduler:leader", "scheduler:lease", "scheduler:wake"}
    events = {"task:events:log", "task:events:last"}
    locks = {"lock:nightly", "locks:last"}
    assert await bench.list_names() == levels | worker | others | events | locks | {f"task:cancel:{TASK}"}


async def test_every_key_that_is_not_bounded_by_itself_expires(bench: Bench) -> None:
    await use_everything(bench.coordinator)
    lasting = {name for name in await bench.list_names() if await bench.read("TTL", name) == -1}
    queues = {name for name in await bench.list_names() if name.startswith("queue:")}
    bounded = {"workers", "workers:changes", "scheduler:lease", "scheduler:wake", "task:events:log", "task:events:last"}
    assert lasting == queues | bounded | {"locks:last"}


async def test_operators_can_read_the_values(bench: Bench) -> None:
    await use_everything(bench.coordinator)
    task, delayed = str(TASK).encode(), f"{HIGH}:{TASK}".encode()
    assert await bench.read("LRANGE", "queue:urgent", 0, -1) == [task]
    assert await bench.read("ZRANGE", "queue:delayed", 0, -1, "WITHSCORES") == [[delayed, DUE.timestamp() * 1e6]]
    assert await bench.read("LRANGE", f"worker:{WORKER}:queue", 0, -1) == [f"{TASK}:4".encode()]
    assert await bench.read("SMEMBERS", f"worker:{WORKER}:inflight") == [f"{TASK}:3".encode()]
    assert await bench.read("HGET", f"worker:{WORKER}", "name") == b"pod-1"
    assert await bench.read("HGET", "scheduler:leader", "node") == NODE.encode()
    assert await bench.read("HGET", "lock:nightly", "node") == NODE.encode()
    assert await bench.read("LLEN", "scheduler:wake") == 1


async def test_there_is_never_more_than_one_wake_token(bench: Bench) -> None:
    for number in range(3):
        await use_everything(bench.coordinator)
        await bench.coordinator.deliveries.assign([Attempt(TASK, 10 + number, WORKER)])
        await bench.coordinator.queue.wake()
        await bench.coordinator.deliveries.acknowledge([ATTEMPT])
    assert await bench.read("LLEN", "scheduler:wake") == 1
    assert await bench.read("LLEN", f"worker:{WORKER}:wake") == 1


async def test_removing_a_worker_leaves_no_key_of_it(bench: Bench) -> None:
    await use_everything(bench.coordinator)
    await bench.coordinator.pool.remove([WORKER])
    assert {name for name in await bench.list_names() if name.startswith("worker")} == {"workers:changes"}


async def test_each_step_of_a_batch_is_one_round_trip(bench: Bench) -> None:
    queue, deliveries = bench.coordinator.queue, bench.coordinator.deliveries
    attempts = [Attempt(TaskId(TASK + number), 1, WORKER) for number in range(BATCH)]
    steps = (
        lambda: queue.push([QueueEntry(attempt.task_id, NORMAL) for attempt in attempts]),
        lambda: queue.take(BATCH, order=ORDER),
        lambda: deliveries.assign(attempts),
        lambda: deliveries.take(WORKER, BATCH, wait=AT_ONCE),
        lambda: deliveries.acknowledge(attempts),
    )
    for step in steps:
        await step()  # the first time, the server has yet to learn the script
    before = await bench.count_round_trips()
    for step in steps:
        await step()
    assert await bench.count_round_trips() - before == len(steps)


async def test_all_workers_are_asked_for_in_one_round_trip(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, queue = bench.coordinator.pool, bench.coordinator.queue
    messages, ask = [], Wire.ask

    async def count(wire: Wire, commands: Sequence[Sequence[Any]]) -> list[Any]:
        messages.append(commands)
        return await ask(wire, commands)

    await use_everything(bench.coordinator)
    await pool.list_alive()
    await queue.depths()
    monkeypatch.setattr(Wire, "ask", count)
    assert [worker.id for worker in await pool.list_alive()] == [WORKER]
    assert (await queue.depths()).in_flight == {WORKER: 1}
    assert len(messages) == 2


async def test_a_worker_that_joined_since_the_last_look_is_seen_at_once(bench: Bench) -> None:
    pool, queue = bench.coordinator.pool, bench.coordinator.queue
    await use_everything(bench.coordinator)
    await pool.list_alive()
    await queue.depths()
    other = WorkerId(WORKER - 1)
    await pool.register(Worker(id=other, name="pod-2"), LEASE)
    await bench.coordinator.deliveries.assign([Attempt(TASK, 5, other)])
    assert [worker.id for worker in await pool.list_alive()] == [other, WORKER]
    assert (await queue.depths()).assigned == {other: 1, WORKER: 1}
    await pool.remove([WORKER])
    assert [worker.id for worker in await pool.list_alive()] == [other]
    assert (await queue.depths()).assigned == {other: 1}


async def test_a_batch_larger_than_a_script_can_unpack_goes_through(bench: Bench) -> None:
    queue, deliveries = bench.coordinator.queue, bench.coordinator.deliveries
    ids = [TaskId(TASK + number) for number in range(20_000)]
    attempts = [Attempt(task_id, 1, WORKER) for task_id in ids]
    await queue.push([QueueEntry(task_id, URGENT, DUE) for task_id in ids])
    assert (await queue.move_due(DUE, len(ids))).moved == len(ids)
    assert sorted((await queue.take(len(ids), order=ORDER)).task_ids) == ids
    await deliveries.assign(attempts)
    assert await deliveries.take(WORKER, len(ids), wait=AT_ONCE) == attempts
    await deliveries.acknowledge(attempts)
    assert await deliveries.held(WORKER) == []


async def test_what_is_due_beyond_the_exact_scores_is_kept(bench: Bench) -> None:
    last = datetime.max.replace(tzinfo=UTC)
    await bench.coordinator.queue.push([QueueEntry(TASK, NORMAL, last)])
    move = await bench.coordinator.queue.move_due(DUE, 10)
    assert move.moved == 0
    assert move.next_due_at is not None
    assert move.next_due_at.year == 2255
    assert (await bench.coordinator.queue.move_due(last, 10)).moved == 1


async def test_an_attempt_whose_take_was_cut_off_is_held(bench: Bench, redis_server: RedisServer) -> None:
    await bench.coordinator.deliveries.assign([ATTEMPT])
    async with FaultyProxy("127.0.0.1", redis_server.port) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}/0"
        async with open_redis_coordinator(url, bench.prefix) as behind:
            lost = proxy.drop_reply_after(f"worker:{WORKER}:inflight".encode())
            with pytest.raises(CoordinatorUnavailableError):
                await behind.deliveries.take(WORKER, 10, wait=AT_ONCE)
            assert lost.is_set()
            assert await behind.deliveries.held(WORKER) == [ATTEMPT]


async def test_a_lease_number_is_above_the_last_even_when_the_clock_is_not(bench: Bench) -> None:
    ahead = 2**52
    await bench.read("SET", "scheduler:lease", ahead)
    assert await bench.coordinator.election.campaign(NODE, LEASE) == ahead + 1


async def test_a_worker_whose_hash_expired_is_struck_off_the_list(bench: Bench) -> None:
    await bench.read("SADD", "workers", WORKER)
    assert await bench.coordinator.pool.list_alive() == []
    assert await bench.read("SMEMBERS", "workers") == []


async def test_a_heartbeat_puts_a_worker_back_on_the_list(bench: Bench) -> None:
    pool = bench.coordinator.pool
    await pool.register(Worker(id=WORKER, name="pod-1"), LEASE)
    await bench.read("DEL", "workers")
    assert await pool.heartbeat(WORKER, Heartbeat(0), lease=LEASE)
    assert [worker.id for worker in await pool.list_alive()] == [WORKER]


async def test_a_heartbeat_keeps_what_the_worker_holds_beyond_its_lease(bench: Bench) -> None:
    await use_everything(bench.coordinator)
    held = [f"worker:{WORKER}{part}" for part in (":queue", ":inflight", ":wake")]
    for name in held:
        await bench.read("EXPIRE", name, 1)
    await bench.coordinator.pool.heartbeat(WORKER, Heartbeat(0), lease=LEASE)
    assert min([await bench.read_ttl(name) for name in held]) > LEASE


async def test_what_cannot_be_read_on_the_channel_is_left_out(bench: Bench) -> None:
    event = Event(kind=EventKind.TASK_CREATED, at=DUE, task_id=TASK)
    newer = msgspec.json.encode([{"kind": "task.teleported", "at": DUE}])
    strange = (b"hello", b'{"kind": "task.created"}', b'[{"kind": "task.created", "at": "now"}]', newer, b"[1]")
    async with bench.coordinator.signals.subscribe() as events:
        for message in strange:
            await bench.read("PUBLISH", "task:events", message)
        await bench.coordinator.signals.publish([event])
        assert await hear(events) == event


async def test_what_cannot_be_read_in_the_memory_of_events_is_left_out(bench: Bench) -> None:
    events = [Event(kind=EventKind.TASK_CREATED, at=DUE, task_id=TaskId(TASK + number)) for number in range(2)]
    async with bench.coordinator.signals.subscribe() as listening:
        await bench.coordinator.signals.publish(events[:1])
        told = await anext(listening)
    last = number_of(told)
    await bench.read("INCRBY", "task:events:last", 3)
    await bench.read("XADD", "task:events:log", f"{last + 1}-7", "events", b"hello")
    for place in (f"{last + 2}-7", f"{last + 3}-7"):
        await bench.read("XADD", "task:events:log", place, "events", b'[{"kind": "task.teleported"}]')
    await bench.coordinator.signals.publish(events[1:])
    async with bench.coordinator.signals.subscribe(after=f"r{last + 2}-7") as listening:
        assert await hear(listening) == events[1]
    async with bench.coordinator.signals.subscribe(after=told.id) as listening:
        assert (await anext(listening)).event is None, "who knows how many there were"


async def test_some_more_than_ten_thousand_events_are_remembered_however_they_came(bench: Bench) -> None:
    event = Event(kind=EventKind.TASK_CREATED, at=DUE, task_id=TASK)
    told: list[Told] = []
    async with bench.coordinator.signals.subscribe() as listening:
        for size, times in ((BATCH, 30), (1, 50), (BATCH, 30), (BATCH - 1, 1)):
            for _ in range(times):
                await bench.coordinator.signals.publish([event] * size)
                told += [await anext(listening) for _ in range(size)]
    async with bench.coordinator.signals.subscribe(after=told[-10_001].id) as listening:
        assert [await anext(listening) for _ in range(10_000)] == told[-10_000:]
    async with bench.coordinator.signals.subscribe(after=told[-12_001].id) as listening:
        assert (await anext(listening)).event is None


async def test_who_comes_back_to_a_redis_of_an_older_state_is_told_that_some_were_missed() -> None:
    require_server("redis")
    early, lost, *late = [Event(kind=EventKind.TASK_CREATED, at=DUE, task_id=TaskId(TASK + n)) for n in range(5)]
    with RedisServer() as server:
        async with open_redis_coordinator(server.url(), "older") as node, node.signals.subscribe() as listening:
            await node.signals.publish([early])
            first = await anext(listening)
            await save(server)
            await node.signals.publish([lost, lost])
            second, third = await anext(listening), await anext(listening)
        server.kill()  # what it had not saved is gone
        server.start()
        async with open_redis_coordinator(server.url(), "older") as node:
            async with node.signals.subscribe(after=third.id) as listening:
                assert (await anext(listening)).event is None, "its number is ahead of all there are"
            await node.signals.publish(late)
            async with node.signals.subscribe(after=first.id) as listening:
                again = [await anext(listening) for _ in late]
            assert [told.event for told in again] == late, "of what was saved nothing is missed"
            assert [number_of(told) for told in again[:2]] == [number_of(second), number_of(third)]
            for heard in (second, third):  # their numbers are used again, for others
                async with node.signals.subscribe(after=heard.id) as listening:
                    assert (await anext(listening)).event is None


async def test_events_are_published_in_one_round_trip(bench: Bench) -> None:
    event = Event(kind=EventKind.TASK_CREATED, at=DUE, task_id=TASK)
    await bench.coordinator.signals.publish([event])
    before = await bench.count_round_trips()
    await bench.coordinator.signals.publish([event] * 3 * BATCH)
    assert await bench.count_round_trips() == before + 1


@pytest.mark.parametrize("strange", STRANGE_IDS)
async def test_what_is_no_id_in_a_queue_is_left_out(bench: Bench, strange: bytes) -> None:
    await bench.read("RPUSH", "queue:normal", TASK, strange, TASK + 1, strange, TASK + 2)
    taken = await bench.coordinator.queue.take(3, order=ORDER)
    assert taken.task_ids == (TASK, TASK + 1)
    assert (await bench.coordinator.queue.take(3, order=ORDER)).task_ids == (TASK + 2,)


async def test_what_is_no_id_hides_none_behind_it(bench: Bench) -> None:
    await bench.read("RPUSH", "queue:normal", b"hello", b"", TASK)
    assert (await bench.coordinator.queue.take(0, order=ORDER)).heads == {NORMAL: TASK}


async def test_a_strange_count_of_changes_is_none(bench: Bench) -> None:
    await bench.read("SET", "workers:changes", "many")
    assert (await bench.coordinator.queue.take(1, order=ORDER)).changes is None


async def test_a_wait_and_the_take_after_it_travel_together_and_know_a_script_that_was_forgotten(bench: Bench) -> None:
    queue, deliveries = bench.coordinator.queue, bench.coordinator.deliveries
    for _ in range(2):
        await bench.client.command("SCRIPT", "FLUSH")
        await queue.push([QueueEntry(TASK, NORMAL)])
        await deliveries.assign([ATTEMPT])
        assert (await queue.take(1, order=ORDER, wait=LEASE)).task_ids == (TASK,)
        assert await deliveries.take(WORKER, 1, wait=LEASE) == [ATTEMPT]
        await deliveries.acknowledge([ATTEMPT])


@pytest.mark.parametrize("strange", [b"hello", b"", b"5:", b"5:x", b"12:7", b"x:7"])
async def test_what_is_no_member_of_the_delayed_holds_up_no_other(bench: Bench, strange: bytes) -> None:
    await bench.coordinator.queue.push([QueueEntry(TASK, HIGH, DUE)])
    await bench.read("ZADD", "queue:delayed", 1, strange)
    move = await bench.coordinator.queue.move_due(DUE, 10)
    assert (move.moved, move.next_due_at) == (1, None)
    assert (await bench.coordinator.queue.take(10, order=ORDER)).task_ids == (TASK,)


async def test_a_due_time_beyond_all_reason_is_read_as_the_last(bench: Bench) -> None:
    await bench.read("ZADD", "queue:delayed", "+inf", f"{HIGH}:{TASK}")
    move = await bench.coordinator.queue.move_due(DUE, 10)
    assert move.next_due_at is not None
    assert move.next_due_at.year == 2255


@pytest.mark.parametrize("strange", [*STRANGE_IDS, b"7:", b":7", b"7:x", b"7:0", b"7:1:1"])
async def test_what_is_no_attempt_at_a_worker_is_left_out(bench: Bench, strange: bytes) -> None:
    deliveries = bench.coordinator.deliveries
    await bench.read("RPUSH", f"worker:{WORKER}:queue", strange)
    await deliveries.assign([ATTEMPT])
    assert await deliveries.list_assigned(WORKER) == [ATTEMPT]
    assert await deliveries.take(WORKER, 10, wait=AT_ONCE) == [ATTEMPT]
    await bench.read("SADD", f"worker:{WORKER}:inflight", strange)
    assert await deliveries.held(WORKER) == [ATTEMPT]


async def test_an_attempt_that_another_release_queued_again_is_not_taken_twice(bench: Bench) -> None:
    deliveries = bench.coordinator.deliveries
    await deliveries.assign([ATTEMPT])
    await bench.read("RPUSH", f"worker:{WORKER}:queue", f"{TASK}:3", f"{TASK}:3", f"{TASK}:4")
    assert await deliveries.take(WORKER, 2, wait=AT_ONCE) == [ATTEMPT, Attempt(TASK, 4, WORKER)]
    assert await deliveries.take(WORKER, 2, wait=AT_ONCE) == []


@pytest.mark.parametrize("strange", STRANGE_IDS)
async def test_what_is_no_worker_on_the_list_is_left_out(bench: Bench, strange: bytes) -> None:
    await use_everything(bench.coordinator)
    await bench.coordinator.pool.heartbeat(WORKER, Heartbeat(1), lease=LEASE)
    await bench.read("SADD", "workers", strange)
    assert [worker.id for worker in await bench.coordinator.pool.list_alive()] == [WORKER]
    assert await bench.coordinator.pool.list_beats() == {WORKER: Heartbeat(1)}
    assert (await bench.coordinator.queue.depths()).in_flight == {WORKER: 1}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", b"two words"),
        ("name", b"\xff"),
        ("capacity", b"many"),
        ("capacity", b"0"),
        ("types", b"mail"),
        ("types", b"[1]"),
        ("labels", b"[]"),
        ("weight", b""),
        ("load", b"heavy"),
    ],
)
async def test_a_worker_that_cannot_be_read_hides_no_other(bench: Bench, field: str, value: bytes) -> None:
    pool, strange = bench.coordinator.pool, WorkerId(WORKER + 1)
    for worker_id in (WORKER, strange):
        await pool.register(Worker(id=worker_id, name="pod-1"), LEASE)
    await bench.read("HSET", f"worker:{strange}", field, value)
    assert [worker.id for worker in await pool.list_alive()] == [WORKER]


async def test_a_worker_without_a_name_is_left_out_and_stays_on_the_list(bench: Bench) -> None:
    await use_everything(bench.coordinator)
    await bench.read("HDEL", f"worker:{WORKER}", "name")
    assert await bench.coordinator.pool.list_alive() == []
    assert await bench.read("SCARD", "workers") == 1


async def test_what_another_release_does_not_say_of_a_worker_has_its_default(bench: Bench) -> None:
    await bench.coordinator.pool.register(Worker(id=WORKER, name="pod-1", weight=7, address="10.0.0.3"), LEASE)
    fields = ("address", "capacity", "types", "weight", "labels", "load", "draining")
    await bench.read("HDEL", f"worker:{WORKER}", *fields)
    assert await bench.coordinator.pool.list_alive() == [Worker(id=WORKER, name="pod-1")]


@pytest.mark.parametrize(
    ("field", "value"), [("load", b"-1"), ("completed", b"all"), ("held", b"7:1 8"), ("held", b"\xff")]
)
async def test_a_heartbeat_that_cannot_be_read_hides_no_other(bench: Bench, field: str, value: bytes) -> None:
    pool, strange = bench.coordinator.pool, WorkerId(WORKER + 1)
    for worker_id in (WORKER, strange):
        await pool.register(Worker(id=worker_id, name="pod-1"), LEASE)
        await pool.heartbeat(worker_id, Heartbeat(1, 2, frozenset({(TASK, 3)})), lease=LEASE)
    await bench.read("HSET", f"worker:{strange}", field, value)
    assert await pool.list_beats() == {WORKER: Heartbeat(1, 2, frozenset({(TASK, 3)}))}


async def test_operators_can_read_a_heartbeat(bench: Bench) -> None:
    await use_everything(bench.coordinator)
    beat = Heartbeat(load=2, completed=5, held=frozenset({(TaskId(TASK + 1), 1), (TASK, 3)}))
    await bench.coordinator.pool.heartbeat(WORKER, beat, lease=LEASE)
    read = await bench.read("HMGET", f"worker:{WORKER}", "load", "completed", "held")
    assert read == [b"2", b"5", f"{TASK}:3 {TASK + 1}:1".encode()]


async def test_ids_on_the_channel_are_strings(bench: Bench) -> None:
    event = Event(kind=EventKind.TASK_ASSIGNED, at=DUE, task_id=TASK, worker_id=WORKER)
    async with bench.client.listen(f"{{{bench.prefix}}}:task:events") as messages:
        await bench.coordinator.signals.publish([event])
        place, read = msgspec.json.decode(await anext(messages))
    assert read["task_id"] == str(TASK)
    assert read["worker_id"] == str(WORKER)
    assert await bench.read("GET", "task:events:last") == place.partition("-")[0].encode()


async def test_a_listener_is_told_when_it_cannot_hear_any_more(bench: Bench, redis_server: RedisServer) -> None:
    async with FaultyProxy("127.0.0.1", redis_server.port) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}/0"
        async with open_redis_coordinator(url, bench.prefix) as behind, behind.signals.subscribe() as events:
            proxy.cut()
            with pytest.raises(CoordinatorUnavailableError):
                await anext(events)


@pytest.mark.parametrize("prefix", ["", "{rota}", "a}b"])
async def test_a_prefix_that_would_break_the_hash_tag_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError):
        async with open_redis_coordinator("redis://localhost", prefix):
            pass
