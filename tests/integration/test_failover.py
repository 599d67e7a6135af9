"""A real Redis that is stopped, killed and restarted empty under the failover coordinator; SQLite stands in.

Bounds are those of the failure modes: dispatch goes on within 5 s, a leader is there within 8 s.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from rota.application.loop import Loops
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import NoMetrics
from rota.domain.events import Event, EventKind
from rota.domain.priority import NORMAL
from rota.domain.queue import QueueEntry
from rota.infrastructure.coordination.failover.coordinator import failover_coordinator
from rota.infrastructure.coordination.redis.coordinator import open_redis_coordinator
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.coordination.sql.coordinator import open_sql_coordinator
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.contract.coordinator_backend import (
    LONG,
    NODE_A,
    NODE_B,
    NOON,
    WORKER_1,
    WORKER_2,
    hear,
    make_attempts,
    make_entries,
    make_ids,
    make_pages,
    make_worker,
)
from tests.support.miniature import MiniWorker, Scheduler, TaskSet, running
from tests.support.patience import PATIENT_REDIS
from tests.support.require import require_server
from tests.support.servers.redis import RedisServer

CLOCK = SystemClock()
PRIMARY_DEADLINE_S = 1.0
FALLBACK_S = 1.5  # SQLite answers in milliseconds; the rest is for a busy machine
DISPATCH_WITHIN_S = 5.0
LEADER_WITHIN_S = 8.0
RESTORED_WITHIN_S = 8.0
TOO_EARLY_S = 6.0  # by then, a probe that reads would have brought it back
TTL = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class Process:
    """One process' coordinator, and what its switch said."""

    node: Coordinator
    switches: "asyncio.Queue[bool]"


@dataclass(frozen=True, slots=True)
class Site:
    """A Redis of its own, and a database."""

    redis: RedisServer
    url: str

    @asynccontextmanager
    async def start(self) -> AsyncIterator[Process]:
        switches: asyncio.Queue[bool] = asyncio.Queue()
        loops = Loops(CLOCK, SystemRandom(), NoMetrics())
        async with AsyncExitStack() as stack:
            primary = await stack.enter_async_context(open_redis_coordinator(self.redis.url()))
            fallback = await stack.enter_async_context(
                open_sql_coordinator(self.url, clock=CLOCK, random=SystemRandom())
            )
            opened = failover_coordinator(primary, fallback, loops=loops, on_switch=switches.put_nowait)
            yield Process(await stack.enter_async_context(opened), switches)

    async def restart_empty(self) -> None:
        if self.redis.is_running:
            self.redis.kill()
        self.redis.launch()
        await asyncio.to_thread(self.redis.wait_until_ready)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    require_server("redis")
    url = f"sqlite:///{tmp_path}/store.db"
    await upgrade(url)
    with RedisServer() as redis:
        yield Site(redis, url)


async def seconds_of(call: Callable[[], Awaitable[object]]) -> float:
    began_at = CLOCK.monotonic()
    await call()
    return CLOCK.monotonic() - began_at


async def test_a_redis_that_stopped_costs_one_call_its_deadline_and_the_others_nothing(site: Site) -> None:
    async with site.start() as process:
        queue = process.node.queue
        await queue.push(make_entries(make_ids(1)))
        site.redis.pause()
        first = await seconds_of(lambda: queue.push(make_entries(make_ids(1))))
        assert first < PRIMARY_DEADLINE_S + FALLBACK_S
        assert process.switches.get_nowait() is True
        later = [await seconds_of(lambda: queue.push(make_entries(make_ids(1)))) for _ in range(20)]
        slow = [seconds for seconds in later if seconds >= PRIMARY_DEADLINE_S]  # the disk may keep one or two waiting
        assert len(slow) < 3, "later calls asked the stopped Redis"
        site.redis.resume()


async def test_a_take_that_waits_on_a_redis_that_stops_is_served_by_the_fallback(site: Site) -> None:
    async with site.start() as worker, site.start() as leader:
        await worker.node.pool.register(make_worker(), LONG)
        taking = asyncio.create_task(worker.node.deliveries.take(WORKER_1, 5, wait=LONG))
        await leader.node.pool.list_alive()
        site.redis.pause()
        began_at = CLOCK.monotonic()
        attempts = make_attempts(make_ids(2))
        await leader.node.deliveries.assign(attempts)
        assert await taking == attempts
        assert CLOCK.monotonic() - began_at < DISPATCH_WITHIN_S
        site.redis.resume()


async def test_a_lock_is_the_same_for_all_whatever_becomes_of_redis(site: Site) -> None:
    async with site.start() as one, site.start() as other:
        fence = await one.node.locks.take("import", "one", ttl=LONG)
        assert fence is not None
        site.redis.kill()
        await other.node.queue.push(make_entries(make_ids(1)))
        assert other.switches.get_nowait() is True
        assert await other.node.locks.take("import", "other", ttl=LONG) is None
        assert await one.node.locks.renew("import", "one", fence=fence, ttl=LONG)
        assert await one.node.locks.release("import", "one", fence=fence)
        later = await other.node.locks.take("import", "other", ttl=LONG)
        assert later is not None
        assert later > fence


async def test_a_redis_that_was_restarted_empty_is_used_again_and_rebuilt(site: Site) -> None:
    async with site.start() as leader:
        await leader.node.queue.rebuild("first", make_pages())
        site.redis.kill()
        assert await leader.node.queue.find_generation() is None
        await leader.node.queue.rebuild("second", make_pages(make_entries(make_ids(1))))
        assert await leader.node.queue.find_generation() == "second"
        await site.restart_empty()
        async with asyncio.timeout(RESTORED_WITHIN_S):
            assert [await leader.switches.get() for _ in range(2)] == [True, False]
        assert await leader.node.queue.find_generation() is None
        await leader.node.queue.rebuild("third", make_pages(make_entries(make_ids(3))))
        assert (await leader.node.queue.depths()).ready == {NORMAL: 3}


async def test_a_memory_that_was_flushed_is_no_outage(site: Site) -> None:
    async with site.start() as leader:
        await leader.node.queue.rebuild("first", make_pages())
        await site.restart_empty()  # between two calls
        await leader.node.queue.push(make_entries(make_ids(1)))  # by the fallback, or by the new one
        assert await leader.node.queue.find_generation() is None


async def test_a_standby_leads_on_the_fallback_when_redis_is_gone_for_good(site: Site) -> None:
    async with site.start() as leader, site.start() as standby:
        assert await leader.node.election.campaign(NODE_A, TTL) is not None
        site.redis.kill()
        began_at = CLOCK.monotonic()
        while await standby.node.election.campaign(NODE_B, TTL) is None:
            await standby.node.election.wait_for_vacancy(timedelta(milliseconds=200))
        assert CLOCK.monotonic() - began_at < LEADER_WITHIN_S
        assert await leader.node.election.campaign(NODE_A, TTL) is None


async def test_a_listener_goes_on_when_redis_dies(site: Site) -> None:
    event = Event(kind=EventKind.TASK_CREATED, at=NOON, task_id=make_ids(1)[0])
    async with site.start() as api, site.start() as worker, api.node.signals.subscribe() as events:
        await worker.node.signals.publish([event])
        assert await hear(events) == event
        site.redis.kill()
        await worker.node.signals.publish([event])
        async with asyncio.timeout(DISPATCH_WITHIN_S):
            assert await hear(events) == event


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "cure"),
    [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    ],
    ids=["full", "demoted"],
)
async def test_a_redis_that_only_answers_reads_is_left_until_it_takes_writes(site: Site, harm: str, cure: str) -> None:
    client = RedisClient(site.redis.url(), PATIENT_REDIS)
    async with site.start() as process:
        await client.command(*harm.split())
        await process.node.queue.push(make_entries(make_ids(1)))
        assert await process.switches.get() is True
        assert await client.command("GET", "anything") is None, "reads are answered"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(TOO_EARLY_S):
                await process.switches.get()
        await client.command(*cure.split())
        async with asyncio.timeout(RESTORED_WITHIN_S):
            assert await process.switches.get() is False
        await process.node.queue.push(make_entries(make_ids(1)))
    await client.close()


@asynccontextmanager
async def open_cluster(site: Site, tasks: TaskSet) -> AsyncIterator[list[Process]]:
    """An API process, two schedulers and two workers at work."""
    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(site.start()) for _ in range(5)]
        schedulers = [
            Scheduler(process.node, tasks, clock=CLOCK, name=f"node-{number}")
            for number, process in enumerate(processes[1:3])
        ]
        workers = [
            MiniWorker(process.node, tasks, clock=CLOCK, worker_id=worker_id)
            for process, worker_id in zip(processes[3:], (WORKER_1, WORKER_2), strict=True)
        ]
        steps = [one.step for one in schedulers] + [step for one in workers for step in (one.beat, one.work)]
        async with running(*steps, clock=CLOCK):
            yield processes


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["stopped", "killed"])
async def test_work_goes_on_while_redis_is_away_and_when_it_is_back(site: Site, fault: str) -> None:
    tasks = TaskSet()
    async with open_cluster(site, tasks) as (api, *others):
        await submit_and_finish(api, tasks)
        (site.redis.pause if fault == "stopped" else site.redis.kill)()
        for _ in range(5):
            await submit_and_finish(api, tasks)
        if fault == "stopped":
            site.redis.resume()
        else:
            await site.restart_empty()
        async with asyncio.timeout(RESTORED_WITHIN_S):
            for process in (api, *others):
                while await process.switches.get():
                    continue  # away; next it is back
        for _ in range(5):
            await submit_and_finish(api, tasks)


@pytest.mark.slow
async def test_work_goes_on_when_redis_restarts_empty_under_it(site: Site) -> None:
    """Whoever calls at the wrong moment moves to the fallback, the others do not: both sides are in use at once."""
    tasks = TaskSet()
    async with open_cluster(site, tasks) as (api, *_):
        await submit_and_finish(api, tasks)
        await site.restart_empty()
        until = CLOCK.monotonic() + RESTORED_WITHIN_S
        while CLOCK.monotonic() < until:
            await submit_and_finish(api, tasks)


async def submit_and_finish(api: Process, tasks: TaskSet) -> None:
    """Everything that is submitted is done in time, whatever the coordinator does."""
    async with asyncio.timeout(LEADER_WITHIN_S):
        await api.node.queue.push([QueueEntry(task_id, NORMAL) for task_id in tasks.add(50)])
        await tasks.wait_until_done()
