"""What is handed out: a key for each attempt, under its worker. Its value says whether the worker has fetched it.

`a` and a time: assigned, and since when, which is the order to take in. `t`: taken. Assigning writes a key only where
there is none, taking writes `t` only where the value is still the one that was seen, so that a repeat hands nothing
over twice; an answer that is lost on its way leaves the attempt taken, where `held` finds it. What is no entry is left
out: among them the places that schedulers have reserved (`assistance.py`).

A worker that waits watches its keys from the revision on at which it found nothing. The watch goes on when the wait is
over, and the next take waits for the same one; where that is enough, it does not even look first. Nor does one need to
look for what is held where there was no key at all: before anything is taken it is assigned.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from rota._proto.etcd import wire_pb2 as wire
from rota.domain.attempt import Attempt
from rota.domain.ids import TaskId, WorkerId
from rota.infrastructure.coordination.etcd.keys import EtcdKeys, Stamps, find_number
from rota.infrastructure.coordination.etcd.waiting import KEPT_WATCH, Patience, wake_all
from rota.infrastructure.etcd.client import Done, EtcdClient
from rota.infrastructure.etcd.ops import delete, has_value, is_absent, put, scan, under, when

ASSIGNED, TAKEN = b"a", b"t"


class EtcdDeliveries:
    def __init__(self, client: EtcdClient, keys: EtcdKeys, *, stamps: Stamps, patience: Patience) -> None:
        self._client = client
        self._keys = keys
        self._stamps = stamps
        self._patience = patience
        self._watches: dict[WorkerId, asyncio.Task[bool]] = {}  # each since a look that found nothing to take
        self._empty: set[WorkerId] = set()  # of those that are watched, where there was no key at all

    async def assign(self, attempts: Sequence[Attempt]) -> None:
        keys = dict.fromkeys(map(self._key, attempts))
        new = [when([is_absent(key)], [put(key, ASSIGNED + self._stamps.next().encode())]) for key in keys]
        await self._client.write_in_parts(new, may_repeat=True)

    async def take(self, worker_id: WorkerId, limit: int, *, wait: timedelta) -> list[Attempt]:
        if not wait:
            return (await self._look(worker_id, limit))[0]
        async for left in self._patience.until(wait):
            if not self._is_watched(worker_id) or (left and not self._client.is_watch_enough):
                taken, seen = await self._look(worker_id, limit)
                if taken:
                    return taken
                self._watch(worker_id, seen)
            if left:
                await asyncio.wait({self._watches[worker_id]}, timeout=left.total_seconds())
        return []

    async def acknowledge(self, attempts: Sequence[Attempt]) -> None:
        if attempts:
            ended = [delete(key) for key in dict.fromkeys(map(self._key, attempts))]
            await self._client.write_in_parts([*ended, *wake_all(self._keys)], may_repeat=True)

    async def list_assigned(self, worker_id: WorkerId) -> list[Attempt]:
        kvs = await self._scan(worker_id)
        return _to_attempts(_list_assigned(kvs), worker_id)

    async def held(self, worker_id: WorkerId) -> list[Attempt]:
        if self._client.is_watch_enough and worker_id in self._empty and not self._watches[worker_id].done():
            return []
        taken = _to_attempts([kv for kv in await self._scan(worker_id) if kv.value == TAKEN], worker_id)
        return sorted(taken, key=lambda attempt: (attempt.task_id, attempt.number))

    def _is_watched(self, worker_id: WorkerId) -> bool:
        """Whether a watch has been silent since one looked. Raises what has ended it."""
        watch = self._watches.get(worker_id)
        if watch is None or not watch.done():
            return watch is not None
        del self._watches[worker_id]
        self._empty.discard(worker_id)
        if not watch.cancelled():
            watch.result()
        return False

    def _watch(self, worker_id: WorkerId, seen: Done) -> None:
        self._watches = {one: watch for one, watch in self._watches.items() if not watch.done()}
        self._empty &= self._watches.keys()
        if worker_id not in self._watches:  # else another take has begun one
            own = under(self._keys.delivered_to(worker_id))
            self._watches[worker_id] = self._client.wait_apart(
                own, after=seen.revision, wait=KEPT_WATCH, is_wanted=_is_assignment
            )
            if not seen.answers[0].range.kvs:
                self._empty.add(worker_id)

    async def _look(self, worker_id: WorkerId, limit: int) -> tuple[list[Attempt], Done]:
        """Take what is there, and say what was seen."""
        seen = await self._client.read([scan(under(self._keys.delivered_to(worker_id)))])
        waiting = _list_assigned(seen.answers[0].range.kvs)[:limit]
        if waiting:
            self._empty.discard(worker_id)  # its watch may not have told yet
        return await self._fetch(worker_id, waiting), seen

    async def _scan(self, worker_id: WorkerId) -> Sequence[wire.KeyValue]:
        done = await self._client.read([scan(under(self._keys.delivered_to(worker_id)))])
        return done.answers[0].range.kvs

    async def _fetch(self, worker_id: WorkerId, waiting: Sequence[wire.KeyValue]) -> list[Attempt]:
        """Take these, but for those that somebody else has taken, or acknowledged, in the meantime."""
        if not waiting:
            return []
        keys = [kv.key.decode() for kv in waiting]
        moves = [when([has_value(key, kv.value)], [put(key, TAKEN)]) for key, kv in zip(keys, waiting, strict=True)]
        answers = await self._client.write_in_parts(moves)
        won = [kv for kv, answer in zip(waiting, answers, strict=True) if answer.txn.succeeded]
        return _to_attempts(won, worker_id)

    def _key(self, attempt: Attempt) -> str:
        return f"{self._keys.delivered_to(attempt.worker_id)}{attempt.task_id}_{attempt.number}"


def count_deliveries(kvs: Iterable[wire.KeyValue]) -> tuple[Mapping[WorkerId, int], Mapping[WorkerId, int]]:
    """How many attempts each worker was assigned, and has taken."""
    assigned: Counter[WorkerId] = Counter()
    taken: Counter[WorkerId] = Counter()
    for kv in kvs:
        folder = kv.key.rpartition(b"/")[0]
        worker = find_number(folder.rpartition(b"_")[2])
        if worker is not None and _find_entry(kv) is not None:
            (taken if kv.value == TAKEN else assigned)[WorkerId(worker)] += 1
    return assigned, taken


def _list_assigned(kvs: Iterable[wire.KeyValue]) -> list[wire.KeyValue]:
    waiting = (kv for kv in kvs if kv.value.startswith(ASSIGNED) and _find_entry(kv) is not None)
    return sorted(waiting, key=lambda kv: kv.value)


def _to_attempts(kvs: Iterable[wire.KeyValue], worker_id: WorkerId) -> list[Attempt]:
    return [Attempt(*entry, worker_id) for entry in map(_find_entry, kvs) if entry is not None]


def _find_entry(kv: wire.KeyValue) -> tuple[TaskId, int] | None:
    first, _, second = kv.key.rpartition(b"/")[2].partition(b"_")
    task_id, number = find_number(first), find_number(second)
    return None if task_id is None or number is None else (TaskId(task_id), number)


def _is_assignment(event: wire.WatchEvent) -> bool:
    return event.type == wire.WatchEvent.PUT and event.kv.value.startswith(ASSIGNED)
