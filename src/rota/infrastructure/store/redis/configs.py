"""Task configs in Redis, every change a revision of its own.

Beside its document a config is in its tenant's list of names, in the order of the times that configs fire next, and
among the users of each calendar that its schedule names (`calendars.py`).
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

import msgspec

from rota.application.ports.store import CalendarKey, FireKey
from rota.domain.audit import AuditEntry
from rota.domain.errors import InvalidError, RevisionConflictError
from rota.domain.ids import TenantId
from rota.domain.task_config import KEPT_REVISIONS, ConfigKey, TaskConfig
from rota.infrastructure.instants import to_us
from rota.infrastructure.store.fire_times import FireTime, list_readable, read_config, read_fire_time
from rota.infrastructure.store.redis.space import Change, Place, RedisSpace, present, spell_time

LAST = "last"  # beside the revisions: the number of the newest, also when the config was deleted


class RedisConfigStore:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space

    async def put(
        self, config: TaskConfig, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> TaskConfig:
        space, place = self._space, config_place(self._space, (config.tenant_id, config.type))
        revisions = self._revisions(config.tenant_id, config.type)
        while True:
            found, last = await space.client.batch([("HGET", *place), ("HGET", revisions, LAST)], atomic=True)
            before = None if found is None else read_fire_time(found)
            current = next(iter(list_readable(present([found]))), None)  # what cannot be read is replaced
            if current is not None and config.is_repeat_of(current, expected_revision=expected_revision):
                return current
            revision = before.revision if before is not None else 0
            if expected_revision is not None and expected_revision != revision:
                raise RevisionConflictError(config.type, expected=expected_revision, current=revision)
            now = await space.now()
            created_at = before.created_at if before is not None else now
            number = int(last or 0) + 1
            stored = replace(config.in_place_of(current), revision=number, created_at=created_at, updated_at=now)
            change = put_config(space, stored, before=before).expect(place, found).expect((revisions, LAST), last)
            change.put((revisions, LAST), b"%d" % number).put((revisions, str(number)), msgspec.json.encode(stored))
            change.remove((revisions, str(number - KEPT_REVISIONS))).note(space, audit)
            if await space.commit(await self._with_calendars(stored, change)):
                return stored

    async def find(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        found = await self._space.find(config_place(self._space, (tenant_id, task_type)))
        return None if found is None else read_config(found)

    async def find_many(self, keys: Collection[ConfigKey]) -> dict[ConfigKey, TaskConfig]:
        return {(config.tenant_id, config.type): config for config in await find_configs(self._space, keys)}

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[TaskConfig]:
        names = names_key(self._space, tenant_id)
        return await list_configs(self._space, names, tenant_id=tenant_id, after=after, limit=limit)

    async def find_revision(self, tenant_id: TenantId, task_type: str, *, revision: int) -> TaskConfig | None:
        found = await self._space.find((self._revisions(tenant_id, task_type), str(revision)))
        return None if found is None else read_config(found)

    async def list_revisions(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[TaskConfig]:
        found = await self._space.read_hash(self._revisions(tenant_id, task_type))
        found.pop(LAST, None)
        newest = sorted(list_readable(found.values()), key=lambda one: -one.revision)
        return newest[:limit]

    async def delete(self, tenant_id: TenantId, task_type: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        space, place = self._space, config_place(self._space, (tenant_id, task_type))

        def plan(found: Sequence[bytes | None]) -> tuple[Change, bool]:
            change = Change()
            if found[0] is None:
                return change, False
            config = read_fire_time(found[0])
            change.remove(place).write("ZREM", names_key(space, tenant_id), task_type)
            move(space, change, before=config, after=None)
            for name in config.calendars:
                change.write("ZREM", uses_key(space, (tenant_id, name)), task_type)
            return change.note(space, audit), True

        return await space.decide([place], plan)

    def _revisions(self, tenant_id: TenantId, task_type: str) -> str:
        return self._space.key(f"configs:revisions:{tenant_id}:{task_type}")

    async def _with_calendars(self, config: TaskConfig, change: Change) -> Change:
        """The change, under the condition that the calendars are there which the config names; they must be."""
        names = sorted(calendars_of(config))
        fields = [field_of(config.tenant_id, name) for name in names]
        found = await self._space.find_fields(self._space.calendars, fields)
        for name, field, document in zip(names, fields, found, strict=True):
            if document is None:
                raise InvalidError("schedule", f"there is no calendar {name!r}")
            change.expect_present((self._space.calendars, field))
        return change


class HasFireTime(Protocol):
    @property
    def tenant_id(self) -> TenantId: ...
    @property
    def type(self) -> str: ...
    @property
    def can_fire(self) -> bool: ...
    @property
    def next_fire_at(self) -> datetime | None: ...


def field_of(tenant_id: TenantId, name: str) -> str:
    return f"{tenant_id}:{name}"


def config_place(space: RedisSpace, key: ConfigKey) -> Place:
    return space.configs, field_of(*key)


def names_key(space: RedisSpace, tenant_id: TenantId) -> str:
    return space.key(f"configs:names:{tenant_id}")


def uses_key(space: RedisSpace, key: CalendarKey) -> str:
    tenant_id, name = key
    return space.key(f"calendars:uses:{tenant_id}:{name}")


def calendars_of(config: TaskConfig) -> frozenset[str]:
    return frozenset(config.schedule.calendars) if config.schedule is not None else frozenset()


def spell_fire(key: FireKey) -> str:
    """A config as a member of the set that is in the order of fire times."""
    at, tenant_id, task_type = key
    return f"{spell_time(to_us(at))}:{tenant_id}:{task_type}"


def put_config(space: RedisSpace, config: TaskConfig, *, before: FireTime | None) -> Change:
    """What puts a config in the place of another one, or of none."""
    change = Change().put(config_place(space, (config.tenant_id, config.type)), msgspec.json.encode(config))
    change.write("ZADD", names_key(space, config.tenant_id), 0, config.type)
    move(space, change, before=before, after=config)
    named, names = frozenset() if before is None else before.calendars, calendars_of(config)
    for name in sorted(named - names):
        change.write("ZREM", uses_key(space, (config.tenant_id, name)), config.type)
    for name in sorted(names - named):
        change.write("ZADD", uses_key(space, (config.tenant_id, name)), 0, config.type)
    return change


def move(space: RedisSpace, change: Change, *, before: HasFireTime | None, after: HasFireTime | None) -> None:
    """Where a config is found by the time that it fires next."""
    old = _fire_member(before)  # also of what cannot fire: a release before this one had paused schedules there
    new = _fire_member(after) if after is not None and after.can_fire else None
    if old is not None and old != new:
        change.write("ZREM", space.fires, old)
    if new is not None:
        change.write("ZADD", space.fires, 0, new)


async def list_names(space: RedisSpace, key: str, *, after: str, limit: int) -> list[str]:
    """A page of a set of names that is in order."""
    begin = f"({after}" if after else "-"
    return [one.decode() for one in await space.client.command("ZRANGEBYLEX", key, begin, "+", "LIMIT", 0, limit)]


async def find_configs(space: RedisSpace, keys: Collection[ConfigKey]) -> list[TaskConfig]:
    fields = [field_of(*key) for key in keys]
    return list_readable(present(await space.find_fields(space.configs, fields)))


async def list_configs(space: RedisSpace, key: str, *, tenant_id: TenantId, after: str, limit: int) -> list[TaskConfig]:
    """A page of the configs that a set names. One that is short is the last: what is gone or cannot be read is made
    up for."""
    found: list[TaskConfig] = []
    while (wanted := limit - len(found)) > 0:
        names = await list_names(space, key, after=after, limit=wanted)
        found += await find_configs(space, [(tenant_id, name) for name in names])
        if len(names) < wanted:
            break
        after = names[-1]
    return found


def _fire_member(config: HasFireTime | None) -> str | None:
    if config is None or config.next_fire_at is None:
        return None
    return spell_fire((config.next_fire_at, config.tenant_id, config.type))
