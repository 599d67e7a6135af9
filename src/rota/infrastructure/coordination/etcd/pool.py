"""Who works: three keys for each worker, bound to one lease: what it is, how busy it is, what it holds.

Every registration and removal writes one more key, whose revision tells the scheduler whether the list that it knows is
still the list. A heartbeat lets the lease begin anew, which is no write, and writes the other two where they say
something else. Who registers again keeps the lease, if that runs and is of the same duration, and writes nothing where
that would change nothing: workers repeat themselves, and every change lets the scheduler read the whole list. What
cannot be read is left out.

Under a lease only the one writes that was granted it; whoever else has something to say (a deputy) binds the keys to a
new lease, and ends the old one, as a removal does. So a lease that runs says that all is as its owner has left it, and
the owner need not look before it speaks. (Should a removal fail to end the lease, the store says that the worker is
over. Keys that were deleted by hand are missed when the worker registers again, as it does every few heartbeats.) Of
several members one that has just lost the lead may prolong a lease all the same: there a look comes first.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

import msgspec

from rota._proto.etcd import wire_pb2 as wire
from rota.domain.errors import InvalidError, UnavailableError
from rota.domain.ids import TaskId, WorkerId
from rota.domain.worker import Heartbeat, Worker
from rota.infrastructure.coordination.etcd.keys import EtcdKeys, find_number
from rota.infrastructure.etcd.client import EtcdClient, LeaseGoneError, seconds
from rota.infrastructure.etcd.ops import Op, delete, delete_span, get, is_present, is_unchanged, only, put, scan, under


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
Words = tuple[bytes, bytes]  # what the two keys of a heartbeat say


@dataclass(frozen=True, slots=True)
class Bound:
    """The lease that a worker's key is bound to, and that this process was granted."""

    lease: int
    ttl: int  # seconds
    said: Words | None = None  # by heartbeats under it; None: nothing, or nobody knows


class EtcdWorkerPool:
    def __init__(self, client: EtcdClient, keys: EtcdKeys) -> None:
        self._client = client
        self._keys = keys
        self._bound: dict[WorkerId, Bound] = {}

    async def register(self, worker: Worker, lease: timedelta) -> None:
        own, load, _ = self._keys.of_worker(worker.id)
        before, busy = (one.range.kvs for one in (await self._client.read([get(own), get(load)])).answers)
        document = msgspec.json.encode(_describe(worker, seconds(lease)))
        for kv in before:
            is_known = _to_worker(kv, _read_busy(busy[0]) if busy else None) == worker
            if await self._replace(worker.id, None if is_known else document, found=kv, lease=lease):
                return
        self._bound.pop(worker.id, None)
        bound = await self._client.grant(lease)
        with suppress(LeaseGoneError):  # over before it was used: the next heartbeat is refused
            await self._client.write(self._described(worker.id, document, bound=bound))
            self._bound[worker.id] = Bound(bound, seconds(lease))
        for kv in before:
            await self._client.revoke(kv.lease)

    async def heartbeat(self, worker_id: WorkerId, beat: Heartbeat, *, lease: timedelta) -> bool:
        bound = self._bound.get(worker_id)
        if bound is not None and bound.ttl == seconds(lease) and await self._prolong(worker_id, bound):
            if bound.said == _words_of(beat):
                return True
            with suppress(LeaseGoneError):
                return await self._say(worker_id, beat, bound=bound)
        self._bound.pop(worker_id, None)
        return await self._rebind(worker_id, beat, lease=lease)

    async def remove(self, worker_ids: Sequence[WorkerId]) -> None:
        if not worker_ids:
            return
        doomed = list(dict.fromkeys(worker_ids))
        gone = [op for one in doomed for op in self._forgotten(one)]
        answers = await self._client.write_in_parts([*gone, put(self._keys.changes)])
        for one in doomed:
            self._bound.pop(one, None)
        for lease in {kv.lease for answer in answers for kv in answer.delete.prev_kvs}:
            with suppress(UnavailableError):  # it runs out, or the store tells the worker that it is over
                await self._client.revoke(lease)

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
        known, bound = _read_worker(found), self._bound.get(worker_id)
        if known is None or known.ttl != seconds(lease) or not await self._client.keep_alive(found.lease):
            return False
        if bound is None or bound.lease != found.lease:
            self._bound.pop(worker_id, None)  # somebody else's: the next heartbeat binds the keys anew
            return document is None
        if document is None:
            return True
        self._bound[worker_id] = replace(bound, said=None)
        own, _, _ = self._keys.of_worker(worker_id)
        changes = self._described(worker_id, document, bound=found.lease)
        with suppress(LeaseGoneError):
            return (await self._client.write(changes, when=[is_unchanged(own, found.mod_revision)])).is_met
        return False

    async def _prolong(self, worker_id: WorkerId, bound: Bound) -> bool:
        """Whether the lease runs, and therefore all is as it was left."""
        if not self._client.is_watch_enough:
            own, _, _ = self._keys.of_worker(worker_id)
            found = (await self._client.read([get(own)])).answers[0].range.kvs
            if not found or found[0].lease != bound.lease:
                return False
        return await self._client.keep_alive(bound.lease)

    async def _say(self, worker_id: WorkerId, beat: Heartbeat, *, bound: Bound) -> bool:
        own, _, _ = self._keys.of_worker(worker_id)
        self._bound[worker_id] = replace(bound, said=None)  # should there be no answer
        words = self._said(worker_id, beat, bound=bound.lease)
        is_met = (await self._client.write(words, when=[is_present(own)])).is_met
        if is_met:
            self._bound[worker_id] = replace(bound, said=_words_of(beat))
        return is_met

    async def _rebind(self, worker_id: WorkerId, beat: Heartbeat, *, lease: timedelta) -> bool:
        """Let the keys, if they are there, be bound to a lease of this process, and say all of it."""
        own, _, _ = self._keys.of_worker(worker_id)
        found = (await self._client.read([get(own)])).answers[0].range.kvs
        if not found:
            return False
        known = _read_worker(found[0])
        renewed = None if known is None else msgspec.structs.replace(known, ttl=seconds(lease))
        value = found[0].value if renewed is None else msgspec.json.encode(renewed)
        bound = await self._client.grant(lease)
        changes = [put(own, value, lease=bound), *self._said(worker_id, beat, bound=bound)]
        try:
            done = await self._client.write(changes, when=[is_unchanged(own, found[0].mod_revision)])
        except LeaseGoneError:
            return False
        if done.is_met:
            self._bound[worker_id] = Bound(bound, seconds(lease), _words_of(beat))
        await self._client.revoke(found[0].lease if done.is_met else bound)
        return done.is_met

    def _forgotten(self, worker_id: WorkerId) -> list[Op]:
        words = [delete_span(only(key), prev_kv=True) for key in self._keys.of_worker(worker_id)]
        return [*words, delete_span(under(self._keys.delivered_to(worker_id)))]

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


def _words_of(beat: Heartbeat) -> Words:
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
