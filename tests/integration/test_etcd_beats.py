"""What a worker and a process ask of etcd to be known, and how they hear that somebody else has spoken."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from rota.application.ports.store import Store
from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.node import NodeInfo
from rota.domain.worker import Heartbeat
from rota.infrastructure.coordination.etcd.coordinator import etcd_coordinator
from rota.infrastructure.coordination.etcd.keys import EtcdKeys
from rota.infrastructure.etcd.client import Done, EtcdClient
from rota.infrastructure.etcd.ops import Op, delete, delete_span, scan, under
from rota.infrastructure.store.etcd.space import EtcdSpace
from rota.infrastructure.store.etcd.store import etcd_store
from rota.infrastructure.store.etcd.unison import GRAIN
from rota.infrastructure.system import SystemClock
from rota.testing.contract.coordinator_backend import make_ids, make_worker
from rota.testing.contract.store_backend import NOON
from tests.support import etcd_fixtures
from tests.support.clock import FakeClock, settle
from tests.support.counting_etcd import CountingClient
from tests.support.servers.etcd import EtcdServer

SHORT = timedelta(milliseconds=10)
prefix, client = etcd_fixtures.prefix, etcd_fixtures.client
store, counting = etcd_fixtures.store, etcd_fixtures.counting


async def test_a_worker_that_has_nothing_to_do_asks_little(counting: CountingClient, prefix: str) -> None:
    node = etcd_coordinator(counting, SystemClock(), prefix=prefix)
    store = etcd_store(EtcdSpace(counting, SystemClock(), prefix=prefix))
    registry = store.workers
    worker, lease = make_worker(), timedelta(minutes=1)
    for number in range(50):
        await registry.register(replace(worker, id=WorkerId(worker.id + number)))
    await node.pool.register(worker, lease)
    await node.pool.heartbeat(worker.id, Heartbeat(0), lease=lease)
    await registry.seen({worker.id: 0})
    await node.deliveries.take(worker.id, 1, wait=SHORT)
    await node.signals.find_cancelled([TaskId(worker.id)])
    counting.take()
    assert await node.pool.heartbeat(worker.id, Heartbeat(0), lease=lease)
    assert counting.take() == (0, 0), "its lease runs: all is as it was left"
    assert await node.pool.heartbeat(worker.id, Heartbeat(0, completed=1), lease=lease)
    assert counting.take() == (1, 2), "what is new is written, and nothing read"
    await node.pool.register(worker, lease)
    assert counting.take() == (1, 2), "what the pool knows is not written again"
    assert await node.pool.list_beats() == {worker.id: Heartbeat(0, completed=1)}
    counting.take()
    [record] = await registry.seen({worker.id: 0})
    assert (record.worker.id, counting.take()) == (worker.id, (1, 1)), "what it wrote last is not read again"
    assert await node.deliveries.take(worker.id, 1, wait=SHORT) == []
    assert await node.deliveries.held(worker.id) == []
    assert await node.signals.find_cancelled([TaskId(worker.id)]) == frozenset()
    assert counting.take() == (0, 0), "the watches of before go on"


async def test_a_look_from_before_the_watch_does_not_count_as_one_since(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals = etcd_coordinator(client, SystemClock(), prefix=prefix).signals
    early, late = make_ids(2)
    has_looked, may_go_on, read = asyncio.Event(), asyncio.Event(), client.read

    async def read_and_be_late(ops: Sequence[Op]) -> Done:
        done = await read(ops)
        if not has_looked.is_set():
            has_looked.set()
            await may_go_on.wait()
        return done

    monkeypatch.setattr(client, "read", read_and_be_late)
    slow = asyncio.create_task(signals.find_cancelled([early]))
    await has_looked.wait()
    await signals.request_cancel([early], ttl=timedelta(minutes=1))
    assert await signals.find_cancelled([late]) == frozenset(), "from here on there is a watch"
    may_go_on.set()
    assert await slow == frozenset()
    assert await signals.find_cancelled([early]) == {early}


async def test_who_spoke_for_a_worker_is_found_out_and_the_worker_speaks_for_itself_again(
    counting: CountingClient, client: EtcdClient, prefix: str
) -> None:
    node, deputy = (etcd_coordinator(one, SystemClock(), prefix=prefix) for one in (counting, client))
    worker, lease, said = make_worker(), timedelta(minutes=1), Heartbeat(1)
    await node.pool.register(worker, lease)
    assert await node.pool.heartbeat(worker.id, said, lease=lease)
    assert await deputy.pool.heartbeat(worker.id, Heartbeat(3), lease=lease)
    assert await node.pool.heartbeat(worker.id, said, lease=lease)
    assert await node.pool.list_beats() == {worker.id: said}
    counting.take()
    assert await node.pool.heartbeat(worker.id, said, lease=lease)
    assert counting.take() == (0, 0)


@pytest.mark.parametrize("lost", ["write", "revoke"])
async def test_a_worker_takes_back_its_keys_from_who_spoke_for_it_and_got_no_answer(
    counting: CountingClient, client: EtcdClient, prefix: str, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, deputy = (etcd_coordinator(one, SystemClock(), prefix=prefix) for one in (counting, client))
    worker, lease, said = replace(make_worker(), load=1), timedelta(minutes=1), Heartbeat(1)
    await node.pool.register(worker, lease)
    assert await node.pool.heartbeat(worker.id, said, lease=lease)
    write = client.write

    async def lose(*asked: Any, **how: Any) -> None:
        if lost == "write":
            await write(*asked, **how)
        raise StoreUnavailableError("no answer")

    with monkeypatch.context() as patched, pytest.raises(StoreUnavailableError):
        patched.setattr(client, lost, lose)
        await deputy.pool.heartbeat(worker.id, said, lease=lease)
    found = (await client.read([scan(under(f"/{prefix}/"))])).answers[0].range.kvs
    await node.pool.register(worker, lease)
    assert await node.pool.heartbeat(worker.id, said, lease=lease)
    for foreign in {kv.lease for kv in found} - {0}:
        await client.revoke(foreign)  # as it runs out by itself: nobody prolongs it
    assert [one.id for one in await node.pool.list_alive()] == [worker.id]


async def test_a_worker_whose_keys_are_gone_with_its_lease_left_is_missed_when_it_has_news(
    client: EtcdClient, prefix: str
) -> None:
    pool = etcd_coordinator(client, SystemClock(), prefix=prefix).pool
    worker, lease = make_worker(), timedelta(minutes=1)
    await pool.register(worker, lease)
    assert await pool.heartbeat(worker.id, Heartbeat(1), lease=lease)
    await client.write([delete_span(under(f"/{prefix}/"))])
    assert not await pool.heartbeat(worker.id, Heartbeat(2), lease=lease)
    await pool.register(worker, lease)
    assert await pool.heartbeat(worker.id, Heartbeat(2), lease=lease)
    assert await pool.list_beats() == {worker.id: Heartbeat(2)}


async def test_of_several_members_one_that_prolongs_a_lease_is_not_believed_alone(
    etcd_server: EtcdServer, client: EtcdClient, prefix: str
) -> None:
    counting = CountingClient(f"etcd://127.0.0.1:{etcd_server.port},localhost:{etcd_server.port}")
    pool = etcd_coordinator(counting, SystemClock(), prefix=prefix).pool
    worker, lease = make_worker(), timedelta(minutes=1)
    try:
        await pool.register(worker, lease)
        assert await pool.heartbeat(worker.id, Heartbeat(0), lease=lease)
        counting.take()
        assert await pool.heartbeat(worker.id, Heartbeat(0), lease=lease)
        assert counting.take() == (1, 1)
        own, *_ = EtcdKeys(prefix).of_worker(worker.id)
        await client.write([delete(own)])  # the lease runs on
        assert not await pool.heartbeat(worker.id, Heartbeat(0), lease=lease)
    finally:
        await counting.close()


async def test_a_process_that_says_that_it_lives_reads_nothing(counting: CountingClient, prefix: str) -> None:
    store = etcd_store(EtcdSpace(counting, SystemClock(), prefix=prefix))
    node, ttl = NodeInfo(id=NodeId("a")), timedelta(minutes=1)
    lease = await store.slots.lease(node.id, ttl)
    await store.nodes.seen(node)
    assert await store.slots.renew(node.id, lease, ttl=ttl)
    counting.take()
    await store.nodes.seen(node)
    assert await store.slots.renew(node.id, lease, ttl=ttl)
    assert counting.take() == (2, 2)


async def test_whoever_says_that_it_lives_waits_for_the_others(counting: CountingClient, prefix: str) -> None:
    clock = FakeClock()
    store = etcd_store(EtcdSpace(counting, clock, prefix=prefix))
    node, worker, ttl = NodeInfo(id=NodeId("a")), make_worker(), timedelta(minutes=1)
    lease = await store.slots.lease(node.id, ttl)
    await store.workers.register(worker)

    async def speak() -> None:
        await asyncio.gather(
            store.workers.seen({worker.id: 0}), store.nodes.seen(node), store.slots.renew(node.id, lease, ttl=ttl)
        )

    await speak()
    clock.advance(timedelta(seconds=3.1))
    counting.take()
    speaking = asyncio.create_task(speak())
    await settle()
    assert counting.take() == (0, 0)
    clock.advance(GRAIN)
    await speaking
    assert counting.take() == (3, 3)


async def test_what_others_did_to_a_document_of_ones_own_is_seen(store: Store, client: EtcdClient, prefix: str) -> None:
    other = etcd_store(EtcdSpace(client, SystemClock(), prefix=prefix))
    node, ttl = NodeInfo(id=NodeId("a")), timedelta(minutes=1)
    lease = await store.slots.lease(node.id, ttl)
    assert await store.slots.renew(node.id, lease, ttl=ttl)
    await store.nodes.seen(node)
    assert await other.slots.renew(node.id, lease, ttl=ttl)
    await other.nodes.leave(node.id)
    assert await store.slots.renew(node.id, lease, ttl=ttl)
    await store.nodes.seen(node)
    assert [record.node for record in await other.nodes.list_alive(since=NOON)] == [node]
    await other.slots.lease(node.id, ttl)
    assert not await store.slots.renew(node.id, lease, ttl=ttl)
