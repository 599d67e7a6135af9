"""The processes of the cluster in Redis."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from rota.application.ports.store import MOST_NODES, NodeRecord
from rota.domain.ids import NodeId
from rota.domain.node import NodeInfo
from rota.domain.paging import purge_limit
from rota.infrastructure.store.redis.space import Change, RedisSpace

_RECORD = msgspec.json.Decoder(NodeRecord)


class RedisNodeRegistry:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space
        self._key = space.key("processes")

    async def seen(self, node: NodeInfo) -> None:
        place, now = (self._key, node.id), await self._space.now()

        def plan(found: Sequence[bytes | None]) -> tuple[Change, None]:
            (document,) = found
            known = NodeRecord(node, now, seen_at=now) if document is None else _RECORD.decode(document)
            return Change().put(place, msgspec.json.encode(replace(known, node=node, seen_at=now))), None

        await self._space.decide([place], plan)

    async def leave(self, node_id: NodeId) -> None:
        await self._space.client.command("HDEL", self._key, node_id)

    async def list_alive(self, *, since: datetime) -> list[NodeRecord]:
        records = map(_RECORD.decode, (await self._space.read_hash(self._key)).values())
        return sorted((one for one in records if one.seen_at >= since), key=lambda one: one.node.id)[:MOST_NODES]

    async def purge(self, *, seen_before: datetime, limit: int) -> int:
        found = await self._space.read_hash(self._key)
        old = [one for one, document in found.items() if _RECORD.decode(document).seen_at < seen_before]
        return await self._space.delete_unchanged(self._key, {one: found[one] for one in old[: purge_limit(limit)]})
