"""Task configs in etcd, every change a revision of its own.

One more key is for the time it fires next, and one for each calendar that its schedule names (`calendars.py`)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

import msgspec

from rota.application.ports.store import FireKey
from rota.domain.audit import AuditEntry
from rota.domain.errors import InvalidError, RevisionConflictError
from rota.domain.ids import TenantId
from rota.domain.task_config import KEPT_REVISIONS, ConfigKey, TaskConfig
from rota.infrastructure.etcd.ops import Op, delete, exists, put
from rota.infrastructure.instants import to_us
from rota.infrastructure.store.etcd.audit import audit_ops
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, Found, name_of, present, spell, spell_time
from rota.infrastructure.store.fire_times import FireTime, list_readable, read_config, read_fire_time

USES = "calendar_uses"
LAST = "revision"  # the number of the newest, also when the config was deleted


class EtcdConfigStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def put(
        self, config: TaskConfig, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> TaskConfig:
        key = config_key(self._space, config.tenant_id, task_type=config.type)
        last_key = self._space.key(LAST, config.tenant_id, config.type)
        now = self._space.now()

        def plan(found: Found) -> tuple[list[Op], TaskConfig]:
            before = None if found[0] is None else read_fire_time(found[0].value)
            current = next(iter(list_readable_configs(present(found[:1]))), None)  # what cannot be read is replaced
            if current is not None and config.is_repeat_of(current, expected_revision=expected_revision):
                return [], current
            revision = before.revision if before is not None else 0
            if expected_revision is not None and expected_revision != revision:
                raise RevisionConflictError(config.type, expected=expected_revision, current=revision)
            last = 0 if found[1] is None else int(found[1].value)
            created_at = before.created_at if before is not None else now
            wanted = replace(config.in_place_of(current), revision=last + 1, created_at=created_at, updated_at=now)
            document = msgspec.json.encode(wanted)
            kept = self._space.key("revisions", config.tenant_id, config.type, wanted.revision)
            gone = self._space.key("revisions", config.tenant_id, config.type, wanted.revision - KEPT_REVISIONS)
            changes = [*config_ops(self._space, wanted, before=before), put(kept, document)]
            changes += [delete(gone)] if wanted.revision > KEPT_REVISIONS else []
            return [*changes, put(last_key, str(wanted.revision).encode()), *audit_ops(self._space, audit)], wanted

        while True:
            found = await self._space.find_all([key, last_key])
            ops, stored = plan(found)
            if not ops:
                return stored
            calendars = await self._find_calendars(stored)
            if await self._space.write_if([key, last_key], found, ops=ops, needed=calendars):
                return stored

    async def find(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        found = await self._space.find(config_key(self._space, tenant_id, task_type=task_type))
        return None if found is None else read_config(found.value)

    async def find_many(self, keys: Collection[ConfigKey]) -> dict[ConfigKey, TaskConfig]:
        return {(config.tenant_id, config.type): config for config in await find_configs(self._space, keys)}

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[TaskConfig]:
        return await list_configs(self._space, ("configs", tenant_id), tenant_id=tenant_id, after=after, limit=limit)

    async def find_revision(self, tenant_id: TenantId, task_type: str, *, revision: int) -> TaskConfig | None:
        found = await self._space.find(self._space.key("revisions", tenant_id, task_type, revision))
        return None if found is None else read_config(found.value)

    async def list_revisions(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[TaskConfig]:
        found = await self._space.scan(self._space.all("revisions", tenant_id, task_type))
        return list_readable_configs(found[::-1])[:limit]

    async def delete(self, tenant_id: TenantId, task_type: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        key = config_key(self._space, tenant_id, task_type=task_type)

        def plan(found: Found) -> tuple[list[Op], bool]:
            if found[0] is None:
                return [], False
            config = read_fire_time(found[0].value)
            gone = [key, fire_key(self._space, config), *use_keys(self._space, config, names=config.calendars)]
            return [*(delete(one) for one in gone if one is not None), *audit_ops(self._space, audit)], True

        return await self._space.decide([key], plan)

    async def _find_calendars(self, config: TaskConfig) -> list[str]:
        """The keys of the calendars that a config names, which must be there."""
        names = sorted(calendars_of(config))
        keys = [calendar_key(self._space, config.tenant_id, name=name) for name in names]
        answers = (await self._space.client.read([exists(key) for key in keys])).answers if keys else []
        for name, answer in zip(names, answers, strict=True):
            if not answer.range.count:
                raise InvalidError("schedule", f"there is no calendar {name!r}")
        return keys


def config_key(space: EtcdSpace, tenant_id: TenantId, *, task_type: str) -> str:
    return space.key("configs", tenant_id, task_type)


def calendar_key(space: EtcdSpace, tenant_id: TenantId, *, name: str) -> str:
    return space.key("calendars", tenant_id, name)


def use_keys(space: EtcdSpace, config: "HasFireTime", *, names: frozenset[str]) -> set[str]:
    """What says, for each calendar that a config names, that it does."""
    return {space.key(USES, config.tenant_id, name, config.type) for name in names}


class HasFireTime(Protocol):
    @property
    def tenant_id(self) -> TenantId: ...
    @property
    def type(self) -> str: ...
    @property
    def can_fire(self) -> bool: ...
    @property
    def next_fire_at(self) -> datetime | None: ...


def fire_key(space: EtcdSpace, config: HasFireTime) -> str | None:
    """Where a config is found by the time that it fires next; None: there is none."""
    if config.next_fire_at is None:
        return None
    return fire_place(space, (config.next_fire_at, config.tenant_id, config.type))


def fire_ops(space: EtcdSpace, *, before: HasFireTime | None, after: HasFireTime) -> list[Op]:
    """What puts a config where it is found by the time that it fires next, if it can."""
    # Also what cannot fire is taken away: a release before this one had paused schedules there.
    old = None if before is None else fire_key(space, before)
    new = fire_key(space, after) if after.can_fire else None
    return [*([delete(old)] if old is not None and old != new else []), *([put(new)] if new is not None else [])]


def fire_place(space: EtcdSpace, key: FireKey) -> str:
    at, tenant_id, task_type = key
    return f"{space.key('fires')}/{spell_time(to_us(at))}/{spell(task_type)}/{spell(tenant_id)}"


def config_ops(space: EtcdSpace, config: TaskConfig, *, before: FireTime | None) -> list[Op]:
    """What puts a config in the place of another one, or of none."""
    ops = [put(config_key(space, config.tenant_id, task_type=config.type), msgspec.json.encode(config))]
    ops += fire_ops(space, before=before, after=config)
    named = set() if before is None else use_keys(space, before, names=before.calendars)
    names = use_keys(space, config, names=calendars_of(config))
    return [*ops, *map(delete, sorted(named - names)), *map(put, sorted(names - named))]


def calendars_of(config: TaskConfig) -> frozenset[str]:
    return config.schedule.calendars if config.schedule is not None else frozenset()


def list_readable_configs(kvs: Iterable[KV]) -> list[TaskConfig]:
    return list_readable(kv.value for kv in kvs)


async def find_configs(space: EtcdSpace, keys: Collection[ConfigKey]) -> list[TaskConfig]:
    places = [config_key(space, tenant_id, task_type=task_type) for tenant_id, task_type in keys]
    return list_readable_configs(present(await space.find_all(places)))


async def list_configs(
    space: EtcdSpace, folder: tuple[str, ...], *, tenant_id: TenantId, after: str, limit: int
) -> list[TaskConfig]:
    """A page of the configs whose types stand below a name. One that is short is the last: what is gone or cannot be
    read is made up for."""
    found: list[TaskConfig] = []
    while (wanted := limit - len(found)) > 0:
        types = list(map(name_of, await space.scan(space.names_after(after, *folder), wanted, keys_only=True)))
        found += await find_configs(space, [(tenant_id, one) for one in types])
        if len(types) < wanted:
            break
        after = types[-1]
    return found
