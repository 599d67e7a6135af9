"""What reports are made of, in Redis.

    report                hash: how far the sums go
    report:left           hash: the tasks that were left behind, by the first of them
    report:sums:{grain}   time:tenant:type in order; the hash `report:sums` has the sums by grain and that

The sums of all tenants are in the order of their time, which is how they are read and how they go. Only who moves the
progress writes sums.
"""

import heapq
from collections.abc import Collection, Sequence

import msgspec

from rota.application.ports.report import MOST_ROLLUPS, Place, Rollup, RollupRange
from rota.domain.ids import TaskId
from rota.domain.paging import purge_limit
from rota.domain.rollup import Grain, LeftBehind, Progress, RollupKey, Step, TaskFacts
from rota.domain.task import FINAL
from rota.infrastructure.store.redis.adding import find_stored
from rota.infrastructure.store.redis.configs import field_of
from rota.infrastructure.store.redis.space import Change, Found, RedisSpace, spell, spell_time, to_id
from rota.infrastructure.store.report_documents import facts_of, read_figures, read_ids, write_figures, write_ids

_PROGRESS = msgspec.json.Decoder(Progress)


class RedisReportStore:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space
        self._progress = (space.key("report"), "progress")
        self._left = space.key("report:left")
        self._sums = space.key("report:sums")

    async def find_progress(self) -> Progress:
        return _read_progress(await self._space.find(self._progress))

    async def list_facts(self, *, after: int, before: int, limit: int) -> list[TaskFacts]:
        ended = [self._space.ended(one, status) for one in await self._space.tenant_ids() for status in sorted(FINAL)]
        within = (f"({spell(after)}", f"({spell(before)}", "LIMIT", 0, limit)
        # What goes on is looked at first: what ends meanwhile is then found twice, and not never.
        found = await self._space.ask_each([("ZRANGEBYLEX", key, *within) for key in (self._space.live, *ended)])
        ids = dict.fromkeys(map(to_id, heapq.merge(*found)))
        return await self.load_facts(list(ids)[:limit])

    async def load_facts(self, task_ids: Collection[TaskId]) -> list[TaskFacts]:
        return [facts_of(one.to_task()) for one in await find_stored(self._space, list(task_ids))]  # of no payload

    async def list_live_ids(self, *, after: int, upto: int, limit: int) -> list[TaskId]:
        within = (f"({spell(after)}", f"[{spell(upto)}", "LIMIT", 0, limit)
        return list(map(to_id, await self._space.client.command("ZRANGEBYLEX", self._space.live, *within)))

    async def list_left(self, *, after: int, limit: int) -> list[LeftBehind]:
        left = await self._space.read_hash(self._left)
        keys = sorted(key for key in left if key > spell(after))
        return [LeftBehind(int(key), read_ids(left[key])) for key in keys[:limit]]

    async def roll_up(self, step: Step) -> bool:
        keys = list(step.added)
        places = [self._progress, *((self._sums, _sum_field(key)) for key in keys)]

        def plan(found: Found) -> tuple[Change, bool]:
            if _read_progress(found[0]) != step.before:
                return Change(), False
            change = Change().put(self._progress, msgspec.json.encode(step.after))
            for key, place, known in zip(keys, places[1:], found[1:], strict=True):
                figures = step.added[key]
                if known is not None:
                    (figures := read_figures(known)).merge(step.added[key])
                change.put(place, write_figures(figures)).write("ZADD", self._names(key.grain), 0, _name(key))
            for first, ids in step.left.items():
                place = (self._left, spell(first))
                change = change.put(place, write_ids(ids)) if ids else change.remove(place)
            return change, True

        return await self._space.decide(places, plan)

    async def list_rollups(self, wanted: RollupRange, *, after: Place | None = None) -> Sequence[Rollup]:
        begin = wanted.begin_us if after is None else after[0]
        span = (f"[{spell_time(begin)}", f"({spell_time(wanted.end_us)}")
        names = [
            (int(start), task_type, name)
            for name in await self._space.client.command("ZRANGEBYLEX", self._names(wanted.grain), *span)
            for start, tenant_id, task_type in [name.decode().split(":", 2)]
            if tenant_id == wanted.tenant_id and (not wanted.types or task_type in wanted.types)
        ]
        page = [one for one in names if after is None or one[:2] > after][:MOST_ROLLUPS]
        fields = [f"{wanted.grain}:{name.decode()}" for _, _, name in page]
        found = zip(page, await self._space.find_fields(self._sums, fields), strict=True)
        return [Rollup(start, task_type, read_figures(one)) for (start, task_type, _), one in found if one is not None]

    async def purge(self, grain: Grain, *, before_us: int, limit: int) -> int:
        key, until = self._names(grain), f"({spell_time(before_us)}"
        found = await self._space.client.command("ZRANGEBYLEX", key, "-", until, "LIMIT", 0, purge_limit(limit))
        names = [name.decode() for name in found]
        change = Change().write("HDEL", self._sums, *(f"{grain}:{name}" for name in names))
        await self._space.commit(change.write("ZREM", key, *names))
        return len(names)

    def _names(self, grain: Grain) -> str:
        return f"{self._sums}:{grain}"


def _read_progress(found: bytes | None) -> Progress:
    return Progress() if found is None else _PROGRESS.decode(found)


def _name(key: RollupKey) -> str:
    return f"{spell_time(key.start_us)}:{field_of(key.tenant_id, key.type)}"


def _sum_field(key: RollupKey) -> str:
    return f"{key.grain}:{_name(key)}"
