"""Firing schedules in Redis.

Some firings share a call of the script: their occurrences, their tasks, their configs with the next fire times, under
the condition that each config is as it was read. Whatever else notes a target changes the config too, so that condition
is enough. The ids of all tasks are looked up before anything is written.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from rota.application.ports.store import MOST_LOOKED_THROUGH, FireKey
from rota.domain.firing import Firing, already_in, check_one_firing_each
from rota.domain.ids import TenantId
from rota.domain.paging import purge_limit
from rota.domain.schedule import Occurrence
from rota.domain.submission import NewTask
from rota.domain.task_config import ConfigKey, TaskConfig, UnreadableConfig
from rota.infrastructure.coordination.redis_client import Part
from rota.infrastructure.instants import from_us, to_us
from rota.infrastructure.store.fire_times import read_due, read_fire_time, with_changes
from rota.infrastructure.store.redis.adding import find_known, insert
from rota.infrastructure.store.redis.configs import config_place, field_of, move, spell_fire
from rota.infrastructure.store.redis.space import AT_ONCE, Change, RedisSpace, load_own_script, present, spell_time

FIRED_AT_ONCE = 200  # targets in one call: each is an occurrence, a task and a config
PURGE_PART = 100

_OCCURRENCE = msgspec.json.Decoder(Occurrence)


class RedisScheduleStore:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space
        self._purge = load_own_script("purge_occurrences")

    async def list_due(
        self, limit: int, *, by: datetime | None = None, after: FireKey | None = None
    ) -> list[TaskConfig | UnreadableConfig]:
        until = spell_time(to_us(await self._space.now() if by is None else by))
        begin = "-" if after is None else f"({spell_fire(after)}"
        return await self._read_due(await self._list_fires(begin, f"({until};", limit=limit))  # ; follows the colon

    async def list_unreadable(self, limit: int) -> list[UnreadableConfig]:
        found: list[UnreadableConfig] = []
        begin = "-"
        while fires := await self._list_fires(begin, "+", limit=AT_ONCE):
            found += [one for one in await self._read_due(fires) if isinstance(one, UnreadableConfig)]
            begin = f"({fires[-1]}"
        return found[:limit]

    async def find_next(self) -> datetime | None:
        first = await self._list_fires("-", "+", limit=1)
        return from_us(int(first[0].partition(":")[0])) if first else None

    async def fire(self, firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        check_one_firing_each(firings)
        await find_known(self._space, [task for firing in firings for task in firing.tasks])
        return [noted for part in _cut(firings) for noted in await self._fire(part)]

    async def aim(self, config: TaskConfig | UnreadableConfig, next_fire_at: datetime | None) -> bool:
        space, place = self._space, config_place(self._space, (config.tenant_id, config.type))

        def plan(found: Sequence[bytes | None]) -> tuple[Change, bool]:
            (current,) = found
            if current is None or not _is_at(current, config.next_fire_at, revision=config.revision):
                return Change(), False
            return _move(space, current, into=Change(), changed={"next_fire_at": next_fire_at}), True

        return await space.decide([place], plan)

    async def list_occurrences(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[Occurrence]:
        found = await self._space.client.command("ZREVRANGE", self._key(tenant_id, task_type), 0, limit - 1)
        return list(map(_OCCURRENCE.decode, found))

    async def find_occurrences(
        self, tenant_id: TenantId, task_type: str, *, times: Collection[datetime]
    ) -> dict[datetime, Occurrence]:
        key, moments = self._key(tenant_id, task_type), list(map(to_us, times))
        found = await self._space.client.batch([("ZRANGEBYSCORE", key, one, one) for one in moments])
        noted = (_OCCURRENCE.decode(document) for documents in found for document in documents)
        return {one.fire_at: one for one in noted}

    async def list_runs(
        self, since: Mapping[ConfigKey, datetime], *, limit: int = 100
    ) -> dict[ConfigKey, list[Occurrence]]:
        """A page of all of them at once; those of which it had too few runs, and that have more, are asked again."""
        found: dict[ConfigKey, list[Occurrence]] = {key: [] for key in since}
        below, page = dict.fromkeys(since, "+inf"), min(2 * limit, MOST_LOOKED_THROUGH)
        for _ in range(0, MOST_LOOKED_THROUGH, page):
            asked = [("ZREVRANGEBYSCORE", self._key(*key), end, to_us(since[key])) for key, end in below.items()]
            answers = await self._space.client.batch([(*one, "LIMIT", 0, page) for one in asked])
            for key, documents in zip(list(below), answers, strict=True):
                noted = list(map(_OCCURRENCE.decode, documents))
                found[key] += [one for one in noted if one.task_id is not None]
                del below[key]
                if len(noted) == page and len(found[key]) < limit:
                    below[key] = f"({to_us(noted[-1].fire_at)}"
        return {key: its[:limit] for key, its in found.items()}

    async def purge(self, *, fired_before: datetime, limit: int) -> int:
        left, before, total = purge_limit(limit), to_us(fired_before), 0
        while left > 0:
            asked = (self._space.noted, "-inf", f"({before}", "LIMIT", 0, PURGE_PART)
            schedules = await self._space.client.command("ZRANGEBYSCORE", *asked)
            for one in schedules:
                tenant_id, _, task_type = one.decode().partition(":")
                keys = (self._space.noted, self._key(TenantId(tenant_id), task_type))
                purged = int(await self._space.client.run(self._purge, keys=keys, args=(before, left, one)))
                total, left = total + purged, left - purged
            if not schedules:
                break
        return total

    async def _list_fires(self, begin: str, end: str, *, limit: int) -> list[str]:
        asked = ("ZRANGEBYLEX", self._space.fires, begin, end, "LIMIT", 0, limit)
        return [one.decode() for one in await self._space.client.command(*asked)]

    async def _read_due(self, fires: Sequence[str]) -> list[TaskConfig | UnreadableConfig]:
        fields = [one.partition(":")[2] for one in fires]
        found = map(read_due, present(await self._space.find_fields(self._space.configs, fields)))
        return [one for one in found if one is not None]

    async def _fire(self, firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        space = self._space
        fields = [field_of(firing.tenant_id, firing.task_type) for firing in firings]
        while True:
            configs = await space.find_fields(space.configs, fields)
            known = await self._find_noted(firings)
            tasks = await find_known(space, [task for firing in firings for task in firing.tasks])
            answers: list[Sequence[Occurrence]] = []
            change, new = Change(), list[NewTask]()
            for firing, config, targets in zip(firings, configs, known, strict=True):
                if config is None or not _is_at(config, firing.seen_at, revision=firing.revision):
                    answers.append(already_in(firing, targets))
                    continue
                left = firing.without(targets)
                change.expect(config_place(space, (firing.tenant_id, firing.task_type)), config)
                new += [NewTask(task) for task in left.tasks if task.id not in tasks]
                self._note(left, config, into=change)
                answers.append(left.occurrences)
            if change.is_empty or await space.commit(insert(space, new, into=change)):
                return answers

    async def _find_noted(self, firings: Sequence[Firing]) -> list[dict[datetime, Occurrence]]:
        """Of each firing, those of its targets that are noted already."""
        asked: list[Sequence[Part]] = []
        for firing in firings:
            times = [to_us(one.fire_at) for one in firing.occurrences]
            key = self._key(firing.tenant_id, firing.task_type)
            asked.append(("ZRANGEBYSCORE", key, min(times), max(times)) if times else ("ZRANGEBYSCORE", key, 1, 0))
        found = await self._space.client.batch(asked)
        noted = [list(map(_OCCURRENCE.decode, documents)) for documents in found]
        return [{one.fire_at: one for one in known} for known in noted]

    def _note(self, firing: Firing, config: bytes, *, into: Change) -> None:
        """What notes the targets of a firing and moves its config on."""
        key, before = self._key(firing.tenant_id, firing.task_type), read_fire_time(config)
        noted = [(to_us(one.fire_at), msgspec.json.encode(one)) for one in firing.occurrences]
        into.write("ZADD", key, *(part for pair in noted for part in pair))
        if noted:
            first = min(time for time, _ in noted)
            into.write("ZADD", self._space.noted, "LT", first, field_of(firing.tenant_id, firing.task_type))
        changed = {
            "next_fire_at": firing.next_fire_at,
            "runs": before.runs + len(firing.tasks),
            "last_run": firing.last_run or before.last_run,
        }
        _move(self._space, config, into=into, changed=changed)

    def _key(self, tenant_id: TenantId, task_type: str) -> str:
        return self._space.key(f"occurrences:{tenant_id}:{task_type}")


def _move(space: RedisSpace, config: bytes, *, into: Change, changed: Mapping[str, Any]) -> Change:
    """What changes these parts of a config's document, and where it is found by the time that it fires next."""
    before = read_fire_time(config)
    move(space, into, before=before, after=msgspec.structs.replace(before, **changed))
    return into.put(config_place(space, (before.tenant_id, before.type)), with_changes(config, changed))


def _is_at(config: bytes, next_fire_at: datetime | None, *, revision: int) -> bool:
    """Whether a config is still where it was read."""
    found = read_fire_time(config)
    return (found.next_fire_at, found.revision) == (next_fire_at, revision)


def _cut(firings: Sequence[Firing]) -> Iterator[Sequence[Firing]]:
    """As many parts as it takes for each to be short; a firing is never cut."""
    part: list[Firing] = []
    weight = 0
    for firing in firings:
        if part and weight + firing.weight > FIRED_AT_ONCE:
            yield part
            part, weight = [], 0
        part.append(firing)
        weight += firing.weight
    if part:
        yield part
