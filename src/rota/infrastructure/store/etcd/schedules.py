"""Firing schedules in etcd.

Each firing is one transaction: its occurrences, its tasks, the config with its next fire time, under the condition that
the config is as it was read. Whatever else notes a target changes the config too, so that condition is enough. The ids
of all tasks are looked up before anything is written. What does not fit one request is brought before it, as when tasks
are added (`adding.py`): the longest config and the most targets that one firing may have do fit then.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

import msgspec

from rota.application.ports.store import MOST_LOOKED_THROUGH, FireKey
from rota.domain.checks import EARLIEST, LATEST
from rota.domain.errors import IdTakenError
from rota.domain.firing import Firing, already_in, check_one_firing_each
from rota.domain.ids import TenantId
from rota.domain.paging import purge_limit
from rota.domain.schedule import Occurrence
from rota.domain.submission import NewTask
from rota.domain.task import Task
from rota.domain.task_config import ConfigKey, TaskConfig, UnreadableConfig
from rota.infrastructure.etcd.ops import MOST_BYTES, Op, Span, count, delete, is_unchanged, put, size_of, together
from rota.infrastructure.instants import from_us, to_us
from rota.infrastructure.store.etcd.configs import LAST, config_key, fire_place
from rota.infrastructure.store.etcd.fire_times import move_ops, read_due, read_fire_time
from rota.infrastructure.store.etcd.records import bring, lay_out, load_tasks
from rota.infrastructure.store.etcd.space import (
    FIRST_WINDOW,
    KV,
    PAGE,
    EtcdSpace,
    Found,
    Line,
    name_of,
    present,
    spell_time,
    tenant_of,
)

_OCCURRENCE = msgspec.json.Decoder(Occurrence)


class EtcdScheduleStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def list_due(
        self, limit: int, *, by: datetime | None = None, after: FireKey | None = None
    ) -> list[TaskConfig | UnreadableConfig]:
        start = self._space.all("fires").start if after is None else f"{fire_place(self._space, after)}\0".encode()
        until = spell_time(to_us(self._space.now() if by is None else by))
        end = f"{self._space.key('fires')}/{until}0".encode()  # 0 follows the slash
        return await self._read_due(await self._space.scan(Span(start, end), limit))

    async def list_unreadable(self, limit: int) -> list[UnreadableConfig]:
        found = await self._read_due(await self._space.scan(self._space.all("fires")))
        return [one for one in found if isinstance(one, UnreadableConfig)][:limit]

    async def find_next(self) -> datetime | None:
        first = await self._space.scan(self._space.all("fires"), 1)
        return from_us(int(first[0].key.rsplit(b"/", 3)[1])) if first else None

    async def fire(self, firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        check_one_firing_each(firings)
        await self._check_ids([task for firing in firings for task in firing.tasks])
        return [await self._fire(firing) for firing in firings]

    async def aim(self, config: TaskConfig | UnreadableConfig, next_fire_at: datetime | None) -> bool:
        def plan(found: Found) -> tuple[list[Op], bool]:
            [current] = found
            if current is None or not _is_at(current, config.next_fire_at, revision=config.revision):
                return [], False
            return move_ops(self._space, current, changed={"next_fire_at": next_fire_at}), True

        return await self._space.decide([config_key(self._space, config.tenant_id, task_type=config.type)], plan)

    async def list_occurrences(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[Occurrence]:
        return list(map(_read, await self._list_newest((tenant_id, task_type), limit=limit)))

    async def find_occurrences(
        self, tenant_id: TenantId, task_type: str, *, times: Collection[datetime]
    ) -> dict[datetime, Occurrence]:
        keys = [self._occurrence_key(tenant_id, task_type, fire_at=at) for at in times]
        return {one.fire_at: one for one in map(_read, present(await self._space.find_all(keys)))}

    async def list_runs(
        self, since: Mapping[ConfigKey, datetime], *, limit: int = 100
    ) -> dict[ConfigKey, list[Occurrence]]:
        listed = await asyncio.gather(*(self._list_runs(key, since=at, limit=limit) for key, at in since.items()))
        return dict(zip(since, listed, strict=True))

    async def _list_runs(self, key: ConfigKey, *, since: datetime, limit: int) -> list[Occurrence]:
        found: list[Occurrence] = []
        before, page = LATEST, min(2 * limit, MOST_LOOKED_THROUGH)
        for _ in range(0, MOST_LOOKED_THROUGH, page):
            noted = list(map(_read, await self._list_newest(key, since=since, before=before, limit=page)))
            found += [one for one in noted if one.task_id is not None]
            if len(noted) < page or len(found) >= limit:
                break
            before = noted[-1].fire_at
        return found[:limit]

    async def purge(self, *, fired_before: datetime, limit: int) -> int:
        """All types that there ever were are asked how much they have of it, many at once: mostly it is nothing."""
        left, before = purge_limit(limit), to_us(fired_before)
        types = [(tenant_of(kv), name_of(kv)) for kv in await self._space.scan(self._space.all(LAST), keys_only=True)]
        spans = [self._between(0, before, key=one) for one in types]
        deleted = 0
        for start in range(0, len(spans), PAGE):
            part = spans[start : start + PAGE]
            counted = (await self._space.client.read([count(span) for span in part])).answers
            for span in (span for span, answer in zip(part, counted, strict=True) if answer.range.count):
                doomed = await self._space.scan(span, left - deleted, keys_only=True)
                done = await self._space.client.write_in_parts([delete(kv.key.decode()) for kv in doomed])
                deleted += sum(answer.delete.deleted for answer in done)
        return deleted

    async def _list_newest(
        self, key: ConfigKey, *, limit: int, since: datetime = EARLIEST, before: datetime = LATEST
    ) -> list[KV]:
        """What is noted of a type since a moment and before another, newest first, up to so many."""
        window = FIRST_WINDOW * 1_000
        line = Line(partial(self._between, key=key), to_us(self._space.now()) + window, window)
        below, least = to_us(before), to_us(since)
        found: list[KV] = []
        while below > least and len(found) < limit:
            part, below = await self._space.scan_latest(line, below=below, least=least, needed=limit - len(found))
            found += part
        return found[:limit]

    def _between(self, begin_us: int, end_us: int, *, key: ConfigKey) -> Span:
        """What is noted of a type from one moment to before another."""
        folder = self._space.key("occurrences", *key)
        return Span(f"{folder}/{spell_time(begin_us)}".encode(), f"{folder}/{spell_time(end_us)}".encode())

    async def _read_due(self, fires: Sequence[KV]) -> list[TaskConfig | UnreadableConfig]:
        keys = [config_key(self._space, TenantId(name_of(kv)), task_type=str(tenant_of(kv))) for kv in fires]
        found = map(read_due, present(await self._space.find_all(keys)))
        return [one for one in found if one is not None]

    async def _check_ids(self, tasks: Sequence[Task]) -> None:
        specs = await self._space.find_all([self._space.key("tasks", task.id) for task in tasks])
        known = await load_tasks(self._space, present(specs))
        for task in tasks:
            if task.id in known and known[task.id].spec != task.spec:
                raise IdTakenError(task.id)

    async def _fire(self, firing: Firing) -> Sequence[Occurrence]:
        key = config_key(self._space, firing.tenant_id, task_type=firing.task_type)
        noted = self._occurrence_keys(firing)
        while True:
            found, *targets = await self._space.find_all([key, *noted])
            known = {one.fire_at: one for one in map(_read, present(targets))}
            if found is None or not _is_at(found, firing.seen_at, revision=firing.revision):
                return already_in(firing, known)
            new = firing.without(known)
            ops = self._note(new, found)
            fits = partial(_fits, room=MOST_BYTES - size_of(ops))
            layout = lay_out(self._space, [NewTask(task) for task in new.tasks], fits=fits)
            unchanged = [is_unchanged(key, found.mod_revision)]
            is_brought = await bring(self._space, layout.before, conditions=unchanged)
            if is_brought and await self._space.write_if([key], [found], ops=[*ops, *map(together, layout.groups)]):
                return new.occurrences

    def _note(self, firing: Firing, found: KV) -> list[Op]:
        """What notes the targets of a firing and moves its config on."""
        documents = zip(self._occurrence_keys(firing), firing.occurrences, strict=True)
        noted = [put(key, msgspec.json.encode(one)) for key, one in documents]
        before = read_fire_time(found)
        changed = {
            "next_fire_at": firing.next_fire_at,
            "runs": before.runs + len(firing.tasks),
            "last_run": firing.last_run or before.last_run,
        }
        return [*move_ops(self._space, found, changed=changed), *noted]

    def _occurrence_key(self, tenant_id: TenantId, task_type: str, *, fire_at: datetime) -> str:
        return f"{self._space.key('occurrences', tenant_id, task_type)}/{spell_time(to_us(fire_at))}"

    def _occurrence_keys(self, firing: Firing) -> list[str]:
        own = (firing.tenant_id, firing.task_type)
        return [self._occurrence_key(*own, fire_at=one.fire_at) for one in firing.occurrences]


def _fits(groups: Sequence[Sequence[Op]], room: int) -> bool:
    return sum(map(size_of, groups)) <= room


def _is_at(config: KV, next_fire_at: datetime | None, *, revision: int) -> bool:
    """Whether a config is still where it was read."""
    found = read_fire_time(config)
    return (found.next_fire_at, found.revision) == (next_fire_at, revision)


def _read(kv: KV) -> Occurrence:
    return _OCCURRENCE.decode(kv.value)
