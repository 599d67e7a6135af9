"""What waits: a list of ids, and of what they bring along, for each priority; and a sorted set by due time.

Ids are decimal strings all the way: a Lua number is a double and would round them. Due times are scores in
microseconds since 1970, which a double holds exactly until 2255. What is no id is left out.

A memory has its name for one run of one server as primary, told by the id that Redis gives its history of writes
(`master_replid`). A replica that is promoted begins another one, and so does a server that restarts: either may lack
writes that were answered, so the name does not count there, and the queues are rebuilt (ADR-0038).

Whether tasks bring themselves along goes by the length of their level, which every push to it tells. A process that has
not pushed to a level yet takes it for a long one: only a few that come together do so then. One that comes and goes
would otherwise fill a long queue with each of its batches.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

from rota.application.ports.coordinator import NO_WAIT
from rota.domain.ids import TaskId
from rota.domain.priority import LEVELS
from rota.domain.queue import MOST_BROUGHT, DueMove, QueueDepths, QueueEntry, Taken, WorkerLoads
from rota.infrastructure.coordination.redis.entries import find_all_ready, find_ready, to_ready
from rota.infrastructure.coordination.redis.keys import RedisKeys
from rota.infrastructure.coordination.redis.roll_call import RollCall
from rota.infrastructure.coordination.redis_client import RedisClient, load_script
from rota.infrastructure.instants import from_us, to_us

LAST_EXACT_SCORE = 2**53  # 2255-06-05; what is due later is due then
FEW = 16  # tasks of one push to a level of unknown length, up to which each brings itself along


class RedisTaskQueue:
    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self._client = client
        self._keys = keys
        self._lengths: dict[int, int] = {}  # of each level, as the last push to it has left it
        self._push = load_script("push")
        self._take = load_script("take")
        self._move_due = load_script("move_due")
        self._wake = load_script("wake")
        self._find_generation = load_script("find_generation")
        self._begin_rebuild = load_script("begin_rebuild")
        self._name_generation = load_script("name_generation")
        others = (keys.delayed, *keys.levels)
        self._roll = RollCall(client, keys, script=load_script("count_entries"), keys_of=keys.held, others=others)

    async def push(self, entries: Sequence[QueueEntry]) -> None:
        if not entries:
            return
        ready: tuple[list[QueueEntry], ...] = tuple([] for _ in LEVELS)
        delayed: list[int | str] = []
        for entry in entries:
            if entry.due_at is None:
                ready[entry.priority].append(entry)
            else:
                delayed += (_score(entry.due_at), _member(entry))
        levels = [level for level in LEVELS if ready[level]]
        texts = [text for level in levels for text in self._spell(level, ready[level])]
        keys = (self._keys.wake, self._keys.delayed, *self._keys.levels)
        lengths = await self._client.run(self._push, keys=keys, args=(*map(len, ready), *texts, *delayed))
        self._lengths.update(zip(levels, map(int, lengths), strict=True))

    async def take(self, limit: int, *, order: Sequence[int], wait: timedelta = NO_WAIT) -> Taken:
        is_woken, keys, args = False, (*self._keys.levels, self._keys.changes), (limit, *order)
        if wait:
            is_woken, answer = await self._client.run_when_woken(
                self._take, token=self._keys.wake, wait=wait, keys=keys, args=args
            )
        else:
            answer = await self._client.run(self._take, keys=keys, args=args)
        entries, heads, changes = answer
        ready = find_all_ready(entries)
        first = zip(heads[::2], map(find_ready, heads[1::2]), strict=True)
        return Taken(
            tuple([task_id for task_id, _ in ready]),
            {int(level): head[0] for level, head in first if head is not None},
            {task_id: added for task_id, added in ready if added is not None},
            int(changes) if changes and changes.isdigit() else None,
            is_woken,
        )

    async def wait_for_work(self, wait: timedelta) -> bool:
        return await self._client.wait_for_token(self._keys.wake, wait)

    async def wake(self) -> None:
        await self._client.run(self._wake, keys=(self._keys.wake,))

    async def move_due(self, now: datetime, limit: int) -> DueMove:
        keys = (self._keys.wake, self._keys.delayed, *self._keys.levels)
        moved, next_score = await self._client.run(self._move_due, keys=keys, args=(_score(now), limit))
        return DueMove(int(moved), _to_moment(next_score) if next_score else None)

    async def discard(self, entries: Sequence[QueueEntry]) -> None:
        if entries:
            await self._client.command("ZREM", self._keys.delayed, *map(_member, entries))

    async def depths(self) -> QueueDepths:
        workers, (ready, delayed, held) = await self._roll.call()
        return QueueDepths(
            ready={level: count for level, count in zip(LEVELS, ready, strict=True) if count},
            delayed=delayed,
            assigned={worker: n for worker, n in zip(workers, held[::2], strict=True) if n},
            in_flight={worker: n for worker, n in zip(workers, held[1::2], strict=True) if n},
        )

    async def loads(self) -> WorkerLoads:
        return await self.depths()

    async def find_generation(self) -> str | None:
        generation: bytes | None = await self._client.run(self._find_generation, keys=(self._keys.generation,))
        return None if generation is None else generation.decode(errors="replace")

    async def rebuild(self, generation: str, pages: AsyncIterator[Sequence[QueueEntry]]) -> None:
        emptied = (*self._keys.levels, self._keys.delayed, self._keys.generation)
        # The mark shows in the end whether this memory was lost, or emptied by another rebuild, while we filled it.
        await self._client.run(self._begin_rebuild, keys=(self._keys.building, *emptied), args=(generation,))
        async for page in pages:
            await self.push(page)
        keys = (self._keys.building, self._keys.generation)
        await self._client.run(self._name_generation, keys=keys, args=(generation,))

    def _spell(self, level: int, entries: Sequence[QueueEntry]) -> list[TaskId | bytes]:
        length = self._lengths.get(level)
        is_brief = len(entries) > FEW if length is None else length > MOST_BROUGHT
        return [to_ready(entry, is_brief=is_brief) for entry in entries]


def _score(moment: datetime) -> int:
    return min(to_us(moment), LAST_EXACT_SCORE)


def _to_moment(score: bytes) -> datetime:
    return from_us(int(min(max(float(score), 0), LAST_EXACT_SCORE)))


def _member(entry: QueueEntry) -> str:
    return f"{entry.priority}:{entry.task_id}"
