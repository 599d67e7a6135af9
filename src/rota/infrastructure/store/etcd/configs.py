"""Task configs in etcd, every change a revision of its own, and one more key for the time it fires next."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

import msgspec

from rota.domain.audit import AuditEntry
from rota.domain.errors import RevisionConflictError
from rota.domain.ids import TenantId
from rota.domain.task_config import TaskConfig
from rota.infrastructure.etcd.ops import Op, delete, put
from rota.infrastructure.instants import to_us
from rota.infrastructure.store.etcd.audit import audit_ops
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, Found, spell, spell_time

_CONFIG = msgspec.json.Decoder(TaskConfig)


class EtcdConfigStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def put(
        self, config: TaskConfig, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> TaskConfig:
        key = config_key(self._space, config.tenant_id, task_type=config.type)
        last_key = self._space.key("revision", config.tenant_id, config.type)
        now = self._space.now()

        def plan(found: Found) -> tuple[list[Op], TaskConfig]:
            current = None if found[0] is None else read_config(found[0])
            if current is not None and config.is_repeat_of(current, expected_revision=expected_revision):
                return [], current
            revision = current.revision if current is not None else 0
            if expected_revision is not None and expected_revision != revision:
                raise RevisionConflictError(config.type, expected=expected_revision, current=revision)
            last = 0 if found[1] is None else int(found[1].value)
            created_at = current.created_at if current is not None else now
            wanted = replace(config.in_place_of(current), revision=last + 1, created_at=created_at, updated_at=now)
            document = msgspec.json.encode(wanted)
            kept = self._space.key("revisions", config.tenant_id, config.type, wanted.revision)
            changes = [*config_ops(self._space, wanted, before=current), put(kept, document)]
            return [*changes, put(last_key, str(wanted.revision).encode()), *audit_ops(self._space, audit)], wanted

        return await self._space.decide([key, last_key], plan)

    async def find(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        found = await self._space.find(config_key(self._space, tenant_id, task_type=task_type))
        return None if found is None else read_config(found)

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[TaskConfig]:
        found = map(read_config, await self._space.scan(self._space.all("configs", tenant_id)))
        return sorted((one for one in found if one.type > after), key=lambda one: one.type)[:limit]

    async def find_revision(self, tenant_id: TenantId, task_type: str, *, revision: int) -> TaskConfig | None:
        found = await self._space.find(self._space.key("revisions", tenant_id, task_type, revision))
        return None if found is None else read_config(found)

    async def list_revisions(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[TaskConfig]:
        found = await self._space.scan(self._space.all("revisions", tenant_id, task_type))
        return [read_config(kv) for kv in found[::-1][:limit]]

    async def delete(self, tenant_id: TenantId, task_type: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        key = config_key(self._space, tenant_id, task_type=task_type)

        def plan(found: Found) -> tuple[list[Op], bool]:
            if found[0] is None:
                return [], False
            fire = fire_key(self._space, read_config(found[0]))
            gone = [delete(one) for one in (key, fire) if one is not None]
            return [*gone, *audit_ops(self._space, audit)], True

        return await self._space.decide([key], plan)


def config_key(space: EtcdSpace, tenant_id: TenantId, *, task_type: str) -> str:
    return space.key("configs", tenant_id, task_type)


class HasFireTime(Protocol):
    @property
    def tenant_id(self) -> TenantId: ...
    @property
    def type(self) -> str: ...
    @property
    def is_enabled(self) -> bool: ...
    @property
    def next_fire_at(self) -> datetime | None: ...


def fire_key(space: EtcdSpace, config: HasFireTime) -> str | None:
    """Where a config is found by the time that it fires next; None: it does not."""
    if not config.is_enabled or config.next_fire_at is None:
        return None
    time = spell_time(to_us(config.next_fire_at))
    return f"{space.key('fires')}/{time}/{spell(config.type)}/{spell(config.tenant_id)}"


def config_ops(space: EtcdSpace, config: TaskConfig, *, before: TaskConfig | None) -> list[Op]:
    """What puts a config in the place of another one, or of none."""
    old, new = None if before is None else fire_key(space, before), fire_key(space, config)
    ops = [put(config_key(space, config.tenant_id, task_type=config.type), msgspec.json.encode(config))]
    if old is not None and old != new:
        ops.append(delete(old))
    if new is not None:
        ops.append(put(new))
    return ops


def read_config(kv: KV) -> TaskConfig:
    return _CONFIG.decode(kv.value)
