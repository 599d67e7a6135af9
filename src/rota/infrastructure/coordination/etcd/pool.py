"""Who works: three keys for each worker, bound to one lease: what it is, how busy it is, what it holds.

Every registration and removal writes one more key, whose revision tells the scheduler whether the list that it knows is
still the list. A heartbeat lets the lease begin anew, which is no write, and writes the other two where they say
something else; one of another duration than before binds all three to a new lease. Who registers again keeps the lease,
if that runs and is of the same duration, and writes nothing where that would change nothing: workers repeat themselves,
and every change lets the scheduler read the whole list. What cannot be read is left out.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import msgspec

from rota._proto.etcd import wire_pb2 as wire
from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId, WorkerId
from rota.domain.worker import Heartbeat, Worker
from rota.infrastructure.coordination.etcd.keys import EtcdKeys, find_number
from rota.infrastructure.etcd.client import EtcdClient, LeaseGoneError, seconds
from rota.infrastructure.etcd.ops import Op, delete, delete_span, get, is_present, is_unchanged, put, scan, under


class Described(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker as its key says; another release may have left something out."""

    name: str
    ttl: int  # of its lease, in seconds
    address: str = ""
    capacity: int = 10
    types: tuple[str, ...] = ("*",)
    weight: int = 1
    labels: Mapping[str, str] = {}
    load: int = 0
    draining: bool = False


class Busy(msgspec.Struct, frozen=True):
    load: int
    completed: int = 0


Held = list[tuple[int, int]]


class EtcdWorkerPool:
    def __init__(self, client: EtcdClient, keys: EtcdKeys) -> None:
        self._client = client
        self._keys = keys

    async def register(self, worker: Worker, lease: timedelta) -> None:
        own, load, _ = self._keys.of_worker(worker.id)
        before, busy = (one.range.kvs for one in (await self._client.read([get(own), get(load)])).answers)
        document = msgspec.json.encode(_describe(worker, seconds(lease)))
        for kv in before:
            is_known = _to_worker(kv, _read_busy(busy[0]) if busy else None) == worker
            if await self._replace(worker.id, None if is_known else document, found=kv, lease=lease):
                return
        bound = await self._client.grant(lease)
        with suppress(LeaseGoneError):  # over before it was used: the next heartbeat is refused
            await self._client.write(self._described(worker.id, document, bound=bound))
        for kv in before:
            await self._client.revoke(kv.lease)

    async def heartbeat(self, worker_id: WorkerId, beat: Heartbeat, *, lease: timedelta) -> bool:
        asked = [get(key) for key in self._keys.of_worker(worker_id)]
        own, *said = (one.range.kvs for one in (await self._client.read(asked)).answers)
        if not own:
            return False
        known = _read_worker(own[0])
        try:
            if known is None or known.ttl != seconds(lease):
                return await self._rebind(worker_id, beat, found=own[0], lease=lease)
            if not await self._client.keep_alive(own[0].lease):
                return False
            was_said = [(kv.value, kv.lease) for kvs in said for kv in kvs]
            if was_said == [(word, own[0].lease) for word in _words_of(beat)]:
                return True
            return await self._say(worker_id, beat, bound=own[0].lease)
        except LeaseGoneError:
            return False

    async def remove(self, worker_ids: Sequence[WorkerId]) -> None:
        if not worker_ids:
            return
        gone = [delete(key) for one in dict.fromkeys(worker_ids) for key in self._keys.of_worker(one)]
        queues = [delete_span(under(self._keys.delivered_to(one))) for one in dict.fromkeys(worker_ids)]
        await self._client.write([*gone, *queues, put(self._keys.changes)])

    async def list_alive(self) -> list[Worker]:
        keys = self._keys
        workers, loads = (await self._client.read([scan(under(keys.workers)), scan(under(keys.loads))])).answers
        busy = {_worker_of(kv): _read_busy(kv) for kv in loads.range.kvs}
        found = (_to_worker(kv, busy.get(_worker_of(kv))) for kv in workers.range.kvs)
        return sorted((worker for worker in found if worker is not None), key=lambda worker: worker.id)

    async def list_beats(self) -> dict[WorkerId, Heartbeat]:
        keys = self._keys
        loads, held = (await self._client.read([scan(under(keys.loads)), scan(under(keys.held))])).answers
        holding = {_worker_of(kv): _read_held(kv) for kv in held.range.kvs}
        beats = {_worker_of(kv): _to_beat(kv, holding.get(_worker_of(kv))) for kv in loads.range.kvs}
        return {one: beat for one, beat in beats.items() if one is not None and beat is not None}

    async def _replace(
        self, worker_id: WorkerId, document: bytes | None, *, found: wire.KeyValue, lease: timedelta
    ) -> bool:
        """Keep the lease that it has, if that is of this duration and still runs; and what is found, if there is no
        other document."""
        known = _read_worker(found)
        if known is None or known.ttl != seconds(lease) or not await self._client.keep_alive(found.lease):
            return False
        if document is None:
            return True
        own, _, _ = self._keys.of_worker(worker_id)
        changes = self._described(worker_id, document, bound=found.lease)
        with suppress(LeaseGoneError):
            return (await self._client.write(changes, when=[is_unchanged(own, found.mod_revision)])).is_met
        return False

    async def _say(self, worker_id: WorkerId, beat: Heartbeat, *, bound: int) -> bool:
        own, _, _ = self._keys.of_worker(worker_id)
        return (await self._client.write(self._said(worker_id, beat, bound=bound), when=[is_present(own)])).is_met

    async def _rebind(self, worker_id: WorkerId, beat: Heartbeat, *, found: wire.KeyValue, lease: timedelta) -> bool:
        bound = await self._client.grant(lease)
        own, _, _ = self._keys.of_worker(worker_id)
        known = _read_worker(found)
        value = (
            found.value if known is None else msgspec.json.encode(msgspec.structs.replace(known, ttl=seconds(lease)))
        )
        changes = [put(own, value, lease=bound), *self._said(worker_id, beat, bound=bound)]
        done = await self._client.write(changes, when=[is_unchanged(own, found.mod_revision)])
        await self._client.revoke(found.lease if done.is_met else bound)
        return done.is_met

    def _described(self, worker_id: WorkerId, document: bytes, *, bound: int) -> list[Op]:
        own, load, held = self._keys.of_worker(worker_id)
        return [put(own, document, lease=bound), delete(load), delete(held), put(self._keys.changes)]

    def _said(self, worker_id: WorkerId, beat: Heartbeat, *, bound: int) -> list[Op]:
        _, *keys = self._keys.of_worker(worker_id)
        return [put(key, word, lease=bound) for key, word in zip(keys, _words_of(beat), strict=True)]


def _describe(worker: Worker, ttl: int) -> Described:
    return Described(
        name=worker.name,
        ttl=ttl,
        address=worker.address,
        capacity=worker.capacity,
        types=tuple(sorted(worker.types)),
        weight=worker.weight,
        labels=worker.labels,
        load=worker.load,
        draining=worker.is_draining,
    )


def _words_of(beat: Heartbeat) -> tuple[bytes, bytes]:
    """What the two keys of a heartbeat say: how busy the worker is, and what it holds."""
    return msgspec.json.encode(Busy(beat.load, beat.completed)), msgspec.json.encode(sorted(beat.held))


def _worker_of(kv: wire.KeyValue) -> WorkerId | None:
    number = find_number(kv.key.rpartition(b"/")[2])
    return None if number is None else WorkerId(number)


def _read_worker(kv: wire.KeyValue) -> Described | None:
    try:
        return msgspec.json.decode(kv.value, type=Described)
    except msgspec.DecodeError:
        return None


def _read_busy(kv: wire.KeyValue) -> Busy | None:
    try:
        return msgspec.json.decode(kv.value, type=Busy)
    except msgspec.DecodeError:
        return None


def _read_held(kv: wire.KeyValue) -> frozenset[tuple[TaskId, int]] | None:
    try:
        return frozenset((TaskId(task_id), number) for task_id, number in msgspec.json.decode(kv.value, type=Held))
    except msgspec.DecodeError:
        return None


def _to_worker(kv: wire.KeyValue, busy: Busy | None) -> Worker | None:
    worker_id, said = _worker_of(kv), _read_worker(kv)
    if worker_id is None or said is None:
        return None
    try:
        worker = Worker(
            id=worker_id,
            name=said.name,
            address=said.address,
            capacity=said.capacity,
            types=frozenset(said.types),
            weight=said.weight,
            labels=said.labels,
            load=said.load,
            is_draining=said.draining,
        )
        return worker if busy is None else replace(worker, load=busy.load)
    except InvalidError:
        return None


def _to_beat(kv: wire.KeyValue, held: frozenset[tuple[TaskId, int]] | None) -> Heartbeat | None:
    busy = _read_busy(kv)
    if busy is None or held is None:
        return None
    try:
        return Heartbeat(busy.load, busy.completed, held)
    except InvalidError:
        return None
