"""Who leads, by a key that is bound to a lease of etcd.

The key is written only while it is absent, and the revision at which it was made is the number of the reign: revisions
grow with every write to the cluster. It is prolonged, or removed, only under that number. (An etcd that was replaced by
an empty one counts from the start again: the term, which the store issues, is the fence.)

A lease of etcd keeps the duration it was granted with. One that is to last longer or shorter is replaced: the key is
bound to the new one, in a transaction that fails if the reign has ended. Durations are whole seconds, rounded up: a
node's own trust, counted from the duration it asked for, always ends first.

Standbys watch the key. It vanishes when the leader resigns, and also when its lease runs out.
"""

from datetime import timedelta

import msgspec

from rota._proto.etcd import wire_pb2 as wire
from rota.domain.ids import NodeId
from rota.infrastructure.coordination.etcd.keys import EtcdKeys
from rota.infrastructure.coordination.etcd.waiting import Patience
from rota.infrastructure.etcd.client import EtcdClient, LeaseGoneError, seconds
from rota.infrastructure.etcd.ops import delete, get, is_absent, is_created_at, is_unchanged, only, put


class Reign(msgspec.Struct, frozen=True):
    """What the key says."""

    node: str
    ttl: int  # seconds


class EtcdElection:
    def __init__(self, client: EtcdClient, keys: EtcdKeys, *, patience: Patience) -> None:
        self._client = client
        self._keys = keys
        self._patience = patience

    async def campaign(self, node_id: NodeId, ttl: timedelta) -> int | None:
        if await self._find() is not None:
            return None  # most often, and cheaper than a lease for nothing
        lease = await self._client.grant(ttl)
        document = msgspec.json.encode(Reign(node_id, seconds(ttl)))
        wanted = [
            put(self._keys.leader, document, lease=lease),
            put(self._keys.scheduler(node_id), document, lease=lease),
        ]
        try:
            done = await self._client.write(wanted, when=[is_absent(self._keys.leader)])
        except LeaseGoneError:  # granted, and over before the answer came
            return None
        if not done.is_met:
            await self._client.revoke(lease)
            return None
        return done.revision

    async def renew(self, node_id: NodeId, lease: int, *, ttl: timedelta) -> bool:
        found = await self._find_own(node_id, lease)
        if found is None:
            return False
        reign = _read(found)
        if reign is not None and reign.ttl == seconds(ttl):
            return await self._client.keep_alive(found.lease)
        return await self._rebind(node_id, found, ttl=ttl)

    async def resign(self, node_id: NodeId, lease: int) -> None:
        found = await self._find_own(node_id, lease)
        if found is not None:
            gone = [delete(self._keys.leader), delete(self._keys.scheduler(node_id))]
            await self._client.write(gone, when=[is_created_at(self._keys.leader, lease)])
            await self._client.revoke(found.lease)

    async def find_leader(self) -> NodeId | None:
        found = await self._find()
        reign = None if found is None else _read(found)
        return None if reign is None else NodeId(reign.node)

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

    async def _rebind(self, node_id: NodeId, found: wire.KeyValue, *, ttl: timedelta) -> bool:
        lease = await self._client.grant(ttl)
        document = msgspec.json.encode(Reign(node_id, seconds(ttl)))
        wanted = [
            put(self._keys.leader, document, lease=lease),
            put(self._keys.scheduler(node_id), document, lease=lease),
        ]
        unchanged = is_unchanged(self._keys.leader, found.mod_revision)
        try:
            is_met = (await self._client.write(wanted, when=[unchanged])).is_met
        except LeaseGoneError:
            return False
        await self._client.revoke(found.lease if is_met else lease)
        return is_met

    async def _find(self) -> wire.KeyValue | None:
        kvs = (await self._client.read([get(self._keys.leader)])).answers[0].range.kvs
        return kvs[0] if kvs else None

    async def _find_own(self, node_id: NodeId, lease: int) -> wire.KeyValue | None:
        """The key, if it stands for exactly this reign of this node."""
        found = await self._find()
        if found is None or found.create_revision != lease:
            return None
        reign = _read(found)
        return found if reign is not None and reign.node == node_id else None


def _read(found: wire.KeyValue) -> Reign | None:
    try:
        return msgspec.json.decode(found.value, type=Reign)
    except msgspec.DecodeError:
        return None


def _is_end(event: wire.WatchEvent) -> bool:
    return event.type == wire.WatchEvent.DELETE
