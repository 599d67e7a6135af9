"""The processes of the cluster in etcd."""

from dataclasses import replace
from datetime import datetime

import msgspec

from rota.application.ports.store import MOST_NODES, NodeRecord
from rota.domain.ids import NodeId
from rota.domain.node import NodeInfo
from rota.domain.paging import purge_limit
from rota.infrastructure.etcd.ops import cut, delete, is_unchanged, when
from rota.infrastructure.store.etcd.space import KV, EtcdSpace

KIND = "processes"


class EtcdNodeRegistry:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def seen(self, node: NodeInfo) -> None:
        await self._space.unison.join_in(KIND)
        key, now = self._space.key(KIND, node.id), self._space.now()

        def plan(found: KV | None) -> tuple[bytes, None]:
            known = NodeRecord(node, now, seen_at=now) if found is None else _read(found)
            return msgspec.json.encode(replace(known, node=node, seen_at=now)), None

        await self._space.decide_own(key, plan)

    async def leave(self, node_id: NodeId) -> None:
        await self._space.client.write([delete(self._space.key(KIND, node_id))])

    async def list_alive(self, *, since: datetime) -> list[NodeRecord]:
        records = map(_read, await self._space.scan(self._space.all(KIND)))
        return sorted((one for one in records if one.seen_at >= since), key=lambda one: one.node.id)[:MOST_NODES]

    async def purge(self, *, seen_before: datetime, limit: int) -> int:
        old = [kv for kv in await self._space.scan(self._space.all(KIND)) if _read(kv).seen_at < seen_before]
        return await delete_unchanged(self._space, old[: purge_limit(limit)])


async def delete_unchanged(space: EtcdSpace, kvs: list[KV]) -> int:
    """Delete documents that are still as they were read; says how many."""
    keys = [(kv.key.decode(), kv.mod_revision) for kv in kvs]
    deleted = 0
    for parts in cut([when([is_unchanged(key, revision)], [delete(key)])] for key, revision in keys):
        done = await space.client.write([op for part in parts for op in part])
        deleted += sum(answer.txn.succeeded for answer in done.answers)
    return deleted


def _read(kv: KV) -> NodeRecord:
    return msgspec.json.decode(kv.value, type=NodeRecord)
