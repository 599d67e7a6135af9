"""Who leads: whoever holds the key of the leader (`holdings.py`). The number of the reign is that of the holding.

An etcd that was replaced by an empty one counts from the start again: the term, which the store issues, is the fence.

Standbys watch the key. It vanishes when the leader resigns, and also when its lease runs out.
"""

from datetime import timedelta

from rota._proto.etcd import wire_pb2 as wire
from rota.domain.ids import NodeId
from rota.infrastructure.coordination.etcd.holdings import EtcdHoldings, holder_of
from rota.infrastructure.coordination.etcd.keys import EtcdKeys
from rota.infrastructure.coordination.etcd.waiting import Patience
from rota.infrastructure.etcd.client import EtcdClient
from rota.infrastructure.etcd.ops import get, only


class EtcdElection:
    def __init__(self, client: EtcdClient, keys: EtcdKeys, *, patience: Patience) -> None:
        self._client = client
        self._holdings = EtcdHoldings(client)
        self._keys = keys
        self._patience = patience

    async def campaign(self, node_id: NodeId, ttl: timedelta) -> int | None:
        if await self._holdings.find(self._keys.leader) is not None:
            return None  # most often, and cheaper than a lease for nothing
        return await self._holdings.begin(self._keys.of_leader(node_id), node_id, ttl=ttl)

    async def renew(self, node_id: NodeId, lease: int, *, ttl: timedelta) -> bool:
        return await self._holdings.prolong(self._keys.of_leader(node_id), node_id, number=lease, ttl=ttl)

    async def resign(self, node_id: NodeId, lease: int) -> None:
        await self._holdings.end(self._keys.of_leader(node_id), node_id, number=lease)

    async def find_leader(self) -> NodeId | None:
        found = await self._holdings.find(self._keys.leader)
        holder = None if found is None else holder_of(found)
        return None if holder is None else NodeId(holder)

    async def wait_for_vacancy(self, wait: timedelta) -> bool:
        async for left in self._patience.until(wait):
            done = await self._client.read([get(self._keys.leader)])
            if not done.answers[0].range.kvs:
                return True
            if left and await self._client.wait_for(
                only(self._keys.leader), after=done.revision, wait=left, is_wanted=_is_end
            ):
                return True
        return False


def _is_end(event: wire.WatchEvent) -> bool:
    return event.type == wire.WatchEvent.DELETE
