"""The contract of `NodeRegistry`: which processes live."""

import pytest

from rota.domain.ids import NodeId
from rota.domain.node import NodeInfo
from rota.testing.contract.store_backend import HUGE, NOON, StoreBackend

A, B, C = (NodeInfo(id=NodeId(name)) for name in ("Node-c", "node-a", "node-b"))  # in the order of their code points


@pytest.mark.asyncio
class TestNodes:
    async def test_a_node_comes_back_whole_stamped_by_the_stores_clock(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        node = NodeInfo(id=NodeId("pod-1-77"), roles=("api", "worker"), version="1.2.3", address="上海.example.com")
        before = await store.tasks.now()
        await store.nodes.seen(node)
        [record] = await store.nodes.list_alive(since=before)
        assert record.node == node
        assert before <= record.started_at == record.seen_at <= await store.tasks.now()

    async def test_being_seen_again_keeps_the_start(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.nodes.seen(A)
        [first] = await store.nodes.list_alive(since=NOON)
        await backend.wait(backend.tick)
        await store.nodes.seen(A)
        [second] = await store.nodes.list_alive(since=NOON)
        assert second.started_at == first.started_at
        assert second.seen_at > first.seen_at

    async def test_those_seen_since_a_moment_are_listed_by_id(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.nodes.seen(A)
        await store.nodes.seen(B)
        await backend.wait(backend.tick)
        moment = await store.tasks.now()
        await backend.wait(backend.tick)
        await store.nodes.seen(C)
        await store.nodes.seen(A)
        assert [record.node for record in await store.nodes.list_alive(since=moment)] == [A, C]
        assert [record.node for record in await store.nodes.list_alive(since=NOON)] == [A, B, C]

    async def test_who_leaves_is_forgotten(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for node in (A, B):
            await store.nodes.seen(node)
        for _ in range(2):
            await store.nodes.leave(A.id)
        assert [record.node for record in await store.nodes.list_alive(since=NOON)] == [B]

    async def test_those_not_seen_for_long_are_purged_up_to_a_limit(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for node in (A, B, C):
            await store.nodes.seen(node)
        await backend.wait(backend.tick)
        moment = await store.tasks.now()
        await store.nodes.seen(B)
        answers = [await store.nodes.purge(seen_before=moment, limit=limit) for limit in (1, HUGE, HUGE)]
        assert answers == [1, 1, 0]
        assert [record.node for record in await store.nodes.list_alive(since=NOON)] == [B]
