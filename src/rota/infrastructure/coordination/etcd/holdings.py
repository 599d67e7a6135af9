"""Keys that somebody holds for a while: that of the leader, and those of locks.

Such a key is bound to a lease of etcd. It is written only while it is absent, and the revision at which it was made is
the number of the holding: revisions grow with every write to the cluster. It is prolonged, or removed, only under that
number.

A lease of etcd keeps the duration it was granted with. One that is to last longer or shorter is replaced: the key is
bound to the new one, in a transaction that fails if the holding has ended. Durations are whole seconds, rounded up: a
holder's own trust, counted from the duration it asked for, always ends first.
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from rota._proto.etcd import wire_pb2 as wire
from rota.infrastructure.etcd.client import EtcdClient, LeaseGoneError, seconds
from rota.infrastructure.etcd.ops import Op, delete, get, is_absent, is_created_at, is_unchanged, put


class Holding(msgspec.Struct, frozen=True):
    """What the key says."""

    node: str  # who holds it
    ttl: int  # seconds


class EtcdHoldings:
    """Of several keys the first one decides; the others say the same beside it."""

    def __init__(self, client: EtcdClient) -> None:
        self._client = client

    async def find(self, key: str) -> wire.KeyValue | None:
        kvs = (await self._client.read([get(key)])).answers[0].range.kvs
        return kvs[0] if kvs else None

    async def begin(self, keys: Sequence[str], holder: str, *, ttl: timedelta) -> int | None:
        """Hold what nobody holds: the number of the holding, or None."""
        lease = await self._client.grant(ttl)
        try:
            done = await self._client.write(_put_all(keys, holder, ttl=ttl, lease=lease), when=[is_absent(keys[0])])
        except LeaseGoneError:  # granted, and over before the answer came
            return None
        if not done.is_met:
            await self._client.revoke(lease)
            return None
        return done.revision

    async def prolong(self, keys: Sequence[str], holder: str, *, number: int, ttl: timedelta) -> bool:
        """Prolong exactly this holding."""
        found = await self._find_own(keys[0], holder, number=number)
        if found is None:
            return False
        holding = _read(found)
        if holding is not None and holding.ttl == seconds(ttl):
            return await self._client.keep_alive(found.lease)
        return await self._rebind(keys, holder, found=found, ttl=ttl)

    async def end(self, keys: Sequence[str], holder: str, *, number: int) -> bool:
        """End exactly this holding; False when it was over."""
        found = await self._find_own(keys[0], holder, number=number)
        if found is None:
            return False
        done = await self._client.write([delete(key) for key in keys], when=[is_created_at(keys[0], number)])
        await self._client.revoke(found.lease)
        return done.is_met

    async def _rebind(self, keys: Sequence[str], holder: str, *, found: wire.KeyValue, ttl: timedelta) -> bool:
        lease = await self._client.grant(ttl)
        unchanged = is_unchanged(keys[0], found.mod_revision)
        try:
            is_met = (await self._client.write(_put_all(keys, holder, ttl=ttl, lease=lease), when=[unchanged])).is_met
        except LeaseGoneError:
            return False
        await self._client.revoke(found.lease if is_met else lease)
        return is_met

    async def _find_own(self, key: str, holder: str, *, number: int) -> wire.KeyValue | None:
        """The key, if it stands for exactly this holding."""
        found = await self.find(key)
        return found if found is not None and found.create_revision == number and holder_of(found) == holder else None


def holder_of(found: wire.KeyValue) -> str | None:
    """None: it is none of ours."""
    holding = _read(found)
    return None if holding is None else holding.node


def _put_all(keys: Sequence[str], holder: str, *, ttl: timedelta, lease: int) -> list[Op]:
    document = msgspec.json.encode(Holding(holder, seconds(ttl)))
    return [put(key, document, lease=lease) for key in keys]


def _read(found: wire.KeyValue) -> Holding | None:
    try:
        return msgspec.json.decode(found.value, type=Holding)
    except msgspec.DecodeError:
        return None
