"""What waits: a key for each entry, ordered by priority and time.

Ready entries are taken from the front of each level by deleting a stretch of keys, which tells what it deleted: two
that take at once share without overlap. A delayed entry has a second key, by task, which says where the first one is:
so it can be pushed anew or discarded. The wake-up is a key too, written with the news in one transaction and deleted by
the one who takes it. A batch is one transaction as long as it fits one (`ops.cut`): some 3,500 entries.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota._proto.etcd import wire_pb2 as wire
from rota.application.ports.coordinator import NO_WAIT
from rota.domain.errors import UnavailableError
from rota.domain.ids import TaskId
from rota.domain.priority import LEVELS
from rota.domain.queue import DueMove, QueueDepths, QueueEntry, Taken, WorkerLoads
from rota.domain.task import LiveTask
from rota.infrastructure.coordination.brought import find_brought, to_brought
from rota.infrastructure.coordination.etcd.assistance import count_places
from rota.infrastructure.coordination.etcd.deliveries import count_deliveries
from rota.infrastructure.coordination.etcd.keys import EtcdKeys, Stamps, find_number, find_waiting, spell_time
from rota.infrastructure.coordination.etcd.waiting import Patience, wait_for_wake, wake_all
from rota.infrastructure.etcd.client import EtcdClient
from rota.infrastructure.etcd.ops import (
    MOST_OPS,
    Op,
    Span,
    count,
    delete,
    delete_span,
    get,
    has_value,
    is_present,
    put,
    put_missing,
    scan,
    together,
    under,
    when,
)
from rota.infrastructure.instants import from_us, to_us

FEW = 16  # tasks of one push, up to which each brings itself along; more are read together, by a range or two
HEADS = 8  # entries looked at where nothing is to be taken: one that is none of ours must not hide the next


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A key of a queue that we can read."""

    priority: int
    time_us: int
    task_id: TaskId
    kv: wire.KeyValue


class EtcdTaskQueue:
    def __init__(self, client: EtcdClient, keys: EtcdKeys, *, stamps: Stamps, patience: Patience) -> None:
        self._client = client
        self._keys = keys
        self._stamps = stamps
        self._patience = patience

    async def push(self, entries: Sequence[QueueEntry]) -> None:
        ready = [entry for entry in entries if entry.due_at is None]
        delayed = {
            (entry.priority, entry.task_id): to_us(entry.due_at) for entry in entries if entry.due_at is not None
        }
        changes = [self._make_ready(entry, is_brief=len(ready) > FEW) for entry in ready]
        is_news = bool(ready)
        if delayed:
            known = await self._find_due(delayed)
            changes += [self._delay(*key, due_us=due_us, known=known.get(key)) for key, due_us in delayed.items()]
            is_news = is_news or await self._comes_closer(min(delayed.values()))
        await self._write(changes, wakes=is_news, may_repeat=True)

    async def take(self, limit: int, *, order: Sequence[int], wait: timedelta = NO_WAIT) -> Taken:
        is_woken = bool(wait) and await self.wait_for_work(wait)
        while True:
            levels, changes = await self._look(limit, order)
            chosen = _choose(levels, limit, order=order)
            taken = await self._delete(chosen, limit=limit) if chosen else []
            if taken or not chosen:
                break  # else others were faster: look again
        heads = {
            level: waiting[len(chosen.get(level, ()))].task_id
            for level, waiting in levels.items()
            if len(waiting) > len(chosen.get(level, ()))
        }
        added = {one.task_id: found for one in taken if (found := _find_added(one)) is not None}
        return Taken(tuple(one.task_id for one in taken), heads, added, changes, is_woken)

    async def wait_for_work(self, wait: timedelta) -> bool:
        return await wait_for_wake(self._client, self._keys.wake, left=self._patience.until(wait))

    async def wake(self) -> None:
        await self._client.write(wake_all(self._keys))

    async def move_due(self, now: datetime, limit: int) -> DueMove:
        spans = [scan(self._keys.delayed_at(level), limit + 1) for level in LEVELS]
        answers = (await self._client.read(spans)).answers
        waiting = sorted(_read_all(kv for answer in answers for kv in answer.range.kvs), key=_by_time)
        due = [one for one in waiting[:limit] if one.time_us <= to_us(now)]
        moves = [self._move(one) for one in due]
        moved = sum(answer.txn.succeeded for answer in await self._write(moves, wakes=bool(due)))
        following = waiting[len(due)].time_us if len(waiting) > len(due) else None
        return DueMove(moved, None if following is None else from_us(following))

    async def discard(self, entries: Sequence[QueueEntry]) -> None:
        keys = self._keys
        known = await self._find_due(dict.fromkeys((entry.priority, entry.task_id) for entry in entries))
        gone = [
            together([delete(keys.due_of(*key)), delete(keys.delayed_entry(key[0], time, task_id=key[1]))])
            for key, time in known.items()
        ]
        await self._write(gone)

    async def depths(self) -> QueueDepths:
        keys = self._keys
        asked = [count(keys.ready_at(level)) for level in LEVELS]
        done = await self._client.read([*asked, count(under(keys.delayed)), scan(under(keys.deliveries))])
        *levels, delayed, handed = done.answers
        loads = _count_handed(handed.range.kvs, as_of=done.revision)
        return QueueDepths(
            ready={level: answer.range.count for level, answer in enumerate(levels) if answer.range.count},
            delayed=delayed.range.count,
            assigned=loads.assigned,
            in_flight=loads.in_flight,
            reserved=loads.reserved,
            as_of=loads.as_of,
        )

    async def loads(self) -> WorkerLoads:
        done = await self._client.read([scan(under(self._keys.deliveries))])
        return _count_handed(done.answers[0].range.kvs, as_of=done.revision)

    async def find_generation(self) -> str | None:
        kvs = (await self._client.read([get(self._keys.generation)])).answers[0].range.kvs
        return kvs[0].value.decode(errors="replace") if kvs else None

    async def rebuild(self, generation: str, pages: AsyncIterator[Sequence[QueueEntry]]) -> None:
        keys, name = self._keys, generation.encode()
        empty = [delete_span(under(prefix)) for prefix in (keys.ready, keys.delayed, keys.due, keys.passed)]
        await self._client.write([*empty, delete(keys.generation), put(keys.building, name)])
        async for page in pages:
            await self.push(page)
        named = [put(keys.generation, name), delete(keys.building)]
        await self._client.write(named, when=[has_value(keys.building, name)])

    async def _look(self, limit: int, order: Sequence[int]) -> tuple[dict[int, list[_Waiting]], int]:
        """The front of each level, and the number of the pool's last change."""
        sizes = {level: limit + 1 if level in order else HEADS for level in LEVELS}
        asked = [scan(self._keys.ready_at(level), size) for level, size in sizes.items()]
        *levels, changes = (await self._client.read([*asked, get(self._keys.changes)])).answers
        fronts = {level: _read_all(answer.range.kvs) for level, answer in enumerate(levels)}
        return fronts, changes.range.kvs[0].mod_revision if changes.range.kvs else 0

    async def _delete(self, chosen: Mapping[int, Sequence[_Waiting]], *, limit: int) -> list[_Waiting]:
        """Take stretches of keys, and what came between them in the meantime; put back what is too much.

        Where the answer is lost, all is put in front: it may be gone, and nobody would know before reconciliation."""
        spans = [delete_span(_stretch(some), prev_kv=True) for some in chosen.values()]
        try:
            answers = (await self._client.write(spans)).answers
        except UnavailableError:
            await self._put_in_front(chosen.values())
            raise
        taken = _read_all(kv for answer in answers for kv in answer.delete.prev_kvs)
        if len(taken) > limit:
            await self._put_back(taken[limit:])
        return taken[:limit]

    async def _put_back(self, some: Sequence[_Waiting]) -> None:
        back = [put_missing(one.kv.key.decode(), one.kv.value) for one in some]
        await self._write(back, wakes=True, may_repeat=True)

    async def _put_in_front(self, stretches: Iterable[Sequence[_Waiting]]) -> None:
        """Right before where they were: out of reach of their deletion, which may come to pass only after this."""
        moves = [move for some in stretches for move in self._bring_forward(some)]
        await self._write(moves, wakes=True, may_repeat=True)

    def _bring_forward(self, some: Sequence[_Waiting]) -> list[Op]:
        """A task that waits twice waits once afterwards: a transaction writes no key twice."""
        time, by_task = spell_time(some[0].time_us - 1), dict[TaskId, list[_Waiting]]()
        for one in some:
            by_task.setdefault(one.task_id, []).append(one)
        return [
            together(
                [
                    *(delete(one.kv.key.decode()) for one in alike),
                    put(self._keys.ready_entry(alike[0].priority, time, task_id=task_id), alike[0].kv.value),
                ]
            )
            for task_id, alike in by_task.items()
        ]

    async def _write(
        self, changes: Sequence[Op], *, wakes: bool = False, may_repeat: bool = False
    ) -> list[wire.ResponseOp]:
        wake = wake_all(self._keys) if wakes else []
        return (await self._client.write_in_parts([*changes, *wake], may_repeat=may_repeat))[: len(changes)]

    def _make_ready(self, entry: QueueEntry, *, is_brief: bool) -> Op:
        key = self._keys.ready_entry(entry.priority, self._stamps.next(), task_id=entry.task_id)
        return put(key, b"" if is_brief or entry.added is None else to_brought(entry.added))

    def _delay(self, priority: int, task_id: TaskId, *, due_us: int, known: str | None) -> Op:
        keys, time = self._keys, spell_time(due_us)
        old = [] if known in (None, time) else [delete(keys.delayed_entry(priority, known or "", task_id=task_id))]
        new = [
            put(keys.delayed_entry(priority, time, task_id=task_id)),
            put(keys.due_of(priority, task_id), time.encode()),
        ]
        return together([*old, *new])

    def _move(self, one: _Waiting) -> Op:
        key = one.kv.key.decode()
        gone = [delete(key), delete(self._keys.due_of(one.priority, one.task_id))]
        ready = put(self._keys.ready_entry(one.priority, self._stamps.next(), task_id=one.task_id))
        return when([is_present(key)], [*gone, ready])

    async def _find_due(self, wanted: Iterable[tuple[int, TaskId]]) -> dict[tuple[int, TaskId], str]:
        """Where the delayed entries are, of those that are there."""
        asked = list(wanted)
        found: dict[tuple[int, TaskId], str] = {}
        for start in range(0, len(asked), MOST_OPS):
            some = asked[start : start + MOST_OPS]
            done = await self._client.read([get(self._keys.due_of(*key)) for key in some])
            for key, answer in zip(some, done.answers, strict=True):
                if answer.range.kvs and find_number(answer.range.kvs[0].value) is not None:
                    found[key] = answer.range.kvs[0].value.decode()
        return found

    async def _comes_closer(self, due_us: int) -> bool:
        """Whether nothing is due as early."""
        done = await self._client.read([scan(self._keys.delayed_at(level), 1) for level in LEVELS])
        first = _read_all(kv for answer in done.answers for kv in answer.range.kvs)
        return all(due_us < one.time_us for one in first)


def _read_all(kvs: Iterable[wire.KeyValue]) -> list[_Waiting]:
    found = ((find_waiting(kv.key), kv) for kv in kvs)
    return [_Waiting(*entry, kv) for entry, kv in found if entry is not None]


def _choose(
    levels: Mapping[int, Sequence[_Waiting]], limit: int, *, order: Sequence[int]
) -> dict[int, Sequence[_Waiting]]:
    """What to take from the front of each level."""
    chosen: dict[int, Sequence[_Waiting]] = {}
    for level in order:
        some = levels[level][:limit]
        if some:
            chosen[level] = some
            limit -= len(some)
    return chosen


def _stretch(some: Sequence[_Waiting]) -> Span:
    return Span(some[0].kv.key, some[-1].kv.key + b"\0")


def _find_added(one: _Waiting) -> LiveTask | None:
    return find_brought(one.task_id, one.kv.value) if one.kv.value else None


def _by_time(one: _Waiting) -> tuple[int, int, TaskId]:
    return one.time_us, one.priority, one.task_id


def _count_handed(kvs: Sequence[wire.KeyValue], *, as_of: int) -> WorkerLoads:
    assigned, in_flight = count_deliveries(kvs)
    return WorkerLoads(assigned=assigned, in_flight=in_flight, reserved=count_places(kvs), as_of=as_of)
