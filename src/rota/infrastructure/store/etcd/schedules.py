"""Firing schedules in etcd.

Each firing is one transaction: its occurrences, its tasks, the config with its next fire time, under the condition that
the config is as it was read. Whatever else notes a target changes the config too, so that condition is enough. The ids
of all tasks are looked up before anything is written.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from rota.application.ports.store import MOST_LOOKED_THROUGH, FireKey
from rota.domain.errors import IdTakenError
from rota.domain.firing import Firing, already_in, check_one_firing_each
from rota.domain.ids import TenantId
from rota.domain.paging import purge_limit
from rota.domain.schedule import Occurrence
from rota.domain.submission import NewTask
from rota.domain.task import Task
from rota.domain.task_config import TaskConfig, UnreadableConfig
from rota.infrastructure.etcd.ops import Op, Span, cut, delete, put, together
from rota.infrastructure.instants import from_us, to_us
from rota.infrastructure.store.etcd.configs import config_key, fire_place
from rota.infrastructure.store.etcd.fire_times import move_ops, read_due, read_fire_time
from rota.infrastructure.store.etcd.records import load_tasks, new_task_ops, payload_ops
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, Found, name_of, present, spell_time, tenant_of
from rota.infrastructure.store.fire_times import FireTime

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

    async def aim(
        self, tenant_id: TenantId, task_type: str, *, seen_at: datetime, next_fire_at: datetime | None
    ) -> bool:
        def plan(found: Found) -> tuple[list[Op], bool]:
            [config] = found
            if config is None or read_fire_time(config).next_fire_at != seen_at:
                return [], False
            return move_ops(self._space, config, changed={"next_fire_at": next_fire_at}), True

        return await self._space.decide([config_key(self._space, tenant_id, task_type=task_type)], plan)

    async def list_occurrences(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[Occurrence]:
        found = await self._space.scan(self._space.all("occurrences", tenant_id, task_type))
        return [_read(kv) for kv in found[::-1][:limit]]

    async def list_runs(
        self, tenant_id: TenantId, task_type: str, *, since: datetime, until: datetime | None = None, limit: int = 100
    ) -> list[Occurrence]:
        place = ("occurrences", tenant_id, task_type)
        start = self._space.key(*place, spell_time(to_us(since))).encode()
        last = None if until is None else self._space.key(*place, spell_time(to_us(until))).encode()
        end = self._space.all(*place).end if last is None else last + b"\0"
        newest = (await self._space.scan(Span(start, end)))[::-1][:MOST_LOOKED_THROUGH]
        return [one for one in map(_read, newest) if one.task_id is not None][:limit]

    async def purge(self, *, fired_before: datetime, limit: int) -> int:
        before = spell_time(to_us(fired_before))
        found = await self._space.scan(self._space.all("occurrences"))
        doomed = [kv.key.decode() for kv in found if name_of(kv) < before][: purge_limit(limit)]
        deleted = 0
        for parts in cut([delete(key)] for key in doomed):
            done = await self._space.client.write([op for part in parts for op in part])
            deleted += sum(answer.delete.deleted for answer in done.answers)
        return deleted

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
        noted = [self._occurrence_key(firing, one) for one in firing.occurrences]
        while True:
            found, *targets = await self._space.find_all([key, *noted])
            known = {one.fire_at: one for one in map(_read, present(targets))}
            if found is None or not _is_current(read_fire_time(found), firing):
                return already_in(firing, known)
            new = firing.without(known)
            await self._stage(new)
            if await self._space.write_if([key], [found], ops=self._ops(new, found)):
                return new.occurrences

    async def _stage(self, firing: Firing) -> None:
        payloads = payload_ops(self._space, [NewTask(task) for task in firing.tasks])
        for parts in cut([op] for op in payloads):
            await self._space.client.write([op for part in parts for op in part])

    def _ops(self, firing: Firing, found: KV) -> list[Op]:
        noted = [put(self._occurrence_key(firing, one), msgspec.json.encode(one)) for one in firing.occurrences]
        tasks = [together(new_task_ops(self._space, NewTask(task))) for task in firing.tasks]
        before = read_fire_time(found)
        changed = {
            "next_fire_at": firing.next_fire_at,
            "runs": before.runs + len(firing.tasks),
            "last_run": firing.last_run or before.last_run,
        }
        return [*move_ops(self._space, found, changed=changed), *noted, *tasks]

    def _occurrence_key(self, firing: Firing, one: Occurrence) -> str:
        folder = self._space.key("occurrences", firing.tenant_id, firing.task_type)
        return f"{folder}/{spell_time(to_us(one.fire_at))}"


def _is_current(config: FireTime, firing: Firing) -> bool:
    return (config.next_fire_at, config.revision) == (firing.seen_at, firing.revision)


def _read(kv: KV) -> Occurrence:
    return _OCCURRENCE.decode(kv.value)
