"""The processes of the cluster in memory."""

from dataclasses import replace
from datetime import datetime

from rota.application.ports.store import MOST_NODES, NodeRecord
from rota.domain.ids import NodeId
from rota.domain.node import NodeInfo
from rota.domain.paging import purge_limit
from rota.infrastructure.store.memory.state import MemoryState


class MemoryNodeRegistry:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def seen(self, node: NodeInfo) -> None:
        now = self._state.clock.now()
        known = self._state.nodes.get(node.id, NodeRecord(node, started_at=now, seen_at=now))
        self._state.nodes[node.id] = replace(known, node=node, seen_at=now)

    async def leave(self, node_id: NodeId) -> None:
        self._state.nodes.pop(node_id, None)

    async def list_alive(self, *, since: datetime) -> list[NodeRecord]:
        return [record for _, record in sorted(self._state.nodes.items()) if record.seen_at >= since][:MOST_NODES]

    async def purge(self, *, seen_before: datetime, limit: int) -> int:
        old = sorted(node_id for node_id, record in self._state.nodes.items() if record.seen_at < seen_before)
        doomed = old[: purge_limit(limit)]
        for node_id in doomed:
            del self._state.nodes[node_id]
        return len(doomed)
