"""Schedulers that dispatch at once: a seat is a lease of etcd, and what is reserved is bound to it.

Places at a worker are a key among what is handed to that worker. It is written under the condition that, since the
revision at which its scheduler has looked, nothing was assigned to the worker (no key made) and nobody reserved places
there (no key written): whoever was faster is seen, whether its places have become attempts by now or not. What ends in
the meantime only makes room. When a scheduler dies etcd deletes its keys with its lease.

What is passed on to the leader is a key for each task, in order of time.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from urllib.parse import quote, unquote

from rota._proto.etcd import wire_pb2 as wire
from rota.application.ports.coordinator import Holder
from rota.domain.errors import UnavailableError
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.infrastructure.coordination.etcd.keys import PLACES, EtcdKeys, Stamps, find_number, spell_time
from rota.infrastructure.coordination.etcd.waiting import Patience, wait_for_wake, wake_all
from rota.infrastructure.etcd.client import EtcdClient, LeaseGoneError
from rota.infrastructure.etcd.ops import (
    Op,
    Span,
    delete,
    delete_span,
    get,
    none_created_after,
    none_written_after,
    put,
    put_missing,
    scan,
    under,
    when,
)


class EtcdAssistance:
    def __init__(self, client: EtcdClient, keys: EtcdKeys, *, stamps: Stamps, patience: Patience) -> None:
        self._client = client
        self._keys = keys
        self._stamps = stamps
        self._patience = patience

    async def join(self, node_id: NodeId, ttl: timedelta) -> int:
        lease = await self._client.grant(ttl)
        try:
            await self._client.write([put(self._keys.dispatcher(node_id), lease=lease)])
        except LeaseGoneError:  # granted, and over before the answer came: so will the first renewal say
            return lease
        return lease

    async def renew(self, node_id: NodeId, seat: int) -> bool:
        found = (await self._client.read([get(self._keys.dispatcher(node_id))])).answers[0].range.kvs
        if not found or found[0].lease != seat:
            return False
        return await self._client.keep_alive(seat)

    async def leave(self, node_id: NodeId, seat: int) -> None:
        await self._client.revoke(seat)

    async def list_present(self) -> list[NodeId]:
        found = (await self._client.read([scan(under(self._keys.dispatchers), keys_only=True)])).answers[0].range.kvs
        return sorted(NodeId(unquote(kv.key.rpartition(b"/")[2].decode(errors="replace"))) for kv in found)

    async def reserve(
        self, holder: Holder, places: Mapping[WorkerId, int], *, since: int
    ) -> frozenset[WorkerId] | None:
        asked = [self._reserve(holder, worker_id, number=number, since=since) for worker_id, number in places.items()]
        try:
            answers = await self._client.write_in_parts(asked)
        except LeaseGoneError:
            return None
        won = zip(places, answers, strict=True)
        return frozenset(worker_id for worker_id, answer in won if answer.txn.succeeded)

    async def release(self, holder: Holder, worker_ids: Sequence[WorkerId]) -> None:
        await self._client.write_in_parts([delete(self._place(holder, worker_id)) for worker_id in worker_ids])

    async def pass_on(self, task_ids: Sequence[TaskId]) -> None:
        passed = [put(f"{self._keys.passed}{self._stamps.next()}_{task_id}") for task_id in dict.fromkeys(task_ids)]
        await self._client.write_in_parts([*passed, *wake_all(self._keys)])

    async def take_passed(self, limit: int) -> list[TaskId]:
        """Takes a stretch of keys, and what came between them in the meantime; what is too much is put back.

        Where the answer is lost, all is put in front: it may be gone, and nobody would know before reconciliation."""
        kvs = (await self._client.read([scan(under(self._keys.passed), limit, keys_only=True)])).answers[0].range.kvs
        if not kvs:
            return []
        stretch = Span(kvs[0].key, kvs[-1].key + b"\0")
        try:
            done = await self._client.write([delete_span(stretch, prev_kv=True)])
        except UnavailableError:
            await self._put_in_front(_read_passed(kvs))
            raise
        taken = _read_passed(done.answers[0].delete.prev_kvs)
        if len(taken) > limit:
            await self._put_back(taken[limit:])
        return [task_id for task_id, _ in taken[:limit]]

    async def wait_for_work(self, wait: timedelta) -> bool:
        return await wait_for_wake(self._client, self._keys.wake_assistants, left=self._patience.until(wait))

    def _reserve(self, holder: Holder, worker_id: WorkerId, *, number: int, since: int) -> Op:
        own, reserved = under(self._keys.delivered_to(worker_id)), under(self._keys.places_at(worker_id))
        is_as_seen = [
            none_created_after(Span(own.start, reserved.start), since),
            none_written_after(reserved, since),
        ]
        return when(is_as_seen, [put(self._place(holder, worker_id), str(number).encode(), lease=holder.seat)])

    def _place(self, holder: Holder, worker_id: WorkerId) -> str:
        return self._keys.places_at(worker_id) + quote(holder.name, safe="")

    async def _put_back(self, passed: Iterable[tuple[TaskId, str]]) -> None:
        back = [put_missing(key) for _, key in passed]
        await self._client.write_in_parts([*back, *wake_all(self._keys)], may_repeat=True)

    async def _put_in_front(self, passed: Sequence[tuple[TaskId, str]]) -> None:
        """Right before where they were: out of reach of their deletion, which may come to pass only after this."""
        first = passed[0][1].removeprefix(self._keys.passed).partition("_")[0] if passed else ""
        earlier = spell_time((find_number(first.encode()) or 0) - 1)
        gone = [delete(key) for _, key in passed]
        back = [put(f"{self._keys.passed}{earlier}_{task_id}") for task_id in dict.fromkeys(one for one, _ in passed)]
        await self._client.write_in_parts([*back, *gone, *wake_all(self._keys)], may_repeat=True)


def _read_passed(kvs: Iterable[wire.KeyValue]) -> list[tuple[TaskId, str]]:
    """The tasks that were passed on, each with its key."""
    found = ((find_number(kv.key.rpartition(b"_")[2]), kv.key) for kv in kvs)
    return [(TaskId(number), key.decode()) for number, key in found if number is not None]


def count_places(kvs: Iterable[wire.KeyValue]) -> dict[WorkerId, dict[str, int]]:
    """How many places are reserved at each worker, by holder, among all that is handed to workers."""
    found: dict[WorkerId, dict[str, int]] = {}
    for kv in kvs:
        folder, _, name = kv.key.rpartition(b"/")
        worker, number = find_number(folder.rpartition(b"_")[2]), find_number(kv.value)
        if name.startswith(PLACES.encode()) and worker is not None and number is not None:
            holder = unquote(name.decode(errors="replace").removeprefix(PLACES))
            found.setdefault(WorkerId(worker), {})[holder] = number
    return found
