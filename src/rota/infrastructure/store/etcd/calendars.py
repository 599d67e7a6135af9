"""Calendars in etcd, and which schedules name them.

A config that comes to name a calendar is written with a key that says so, under the condition that the calendar is
there; a calendar is deleted under the condition that there is no such key. So none is deleted under a schedule.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from rota.application.ports.store import CalendarKey
from rota.domain.audit import AuditEntry
from rota.domain.calendar import NAMED_USERS, Calendar, StoredCalendar
from rota.domain.errors import CalendarInUseError, RevisionConflictError
from rota.domain.ids import TenantId
from rota.domain.task_config import TaskConfig
from rota.infrastructure.etcd.ops import Op, delete, is_empty, is_unchanged, put
from rota.infrastructure.store.calendar_documents import KeptCalendar, list_readable, read_calendar, write_calendar
from rota.infrastructure.store.etcd.audit import audit_ops
from rota.infrastructure.store.etcd.configs import USES, calendar_key, list_configs
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, Found, name_of, present, tenant_of


class EtcdCalendarStore:
    """etcd counts how often a key was written since it is there: that is the revision."""

    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def put(
        self, calendar: StoredCalendar, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> StoredCalendar:
        key = calendar_key(self._space, calendar.tenant_id, name=calendar.name)
        now = self._space.now()

        def plan(found: Found) -> tuple[list[Op], StoredCalendar]:
            current = next(iter(_readable(present(found))), None)
            if current is not None and calendar.is_repeat_of(current, expected_revision=expected_revision):
                return [], current
            revision = 0 if found[0] is None else found[0].version
            if expected_revision is not None and expected_revision != revision:
                raise RevisionConflictError(
                    calendar.name, expected=expected_revision, current=revision, kind="calendar"
                )
            created_at = current.created_at if current is not None else now
            stored = replace(calendar, revision=revision + 1, created_at=created_at, updated_at=now)
            return [put(key, write_calendar(stored, with_times=True)), *audit_ops(self._space, audit)], stored

        return await self._space.decide([key], plan)

    async def find(self, tenant_id: TenantId, name: str) -> StoredCalendar | None:
        found = await self._space.find(calendar_key(self._space, tenant_id, name=name))
        return None if found is None else read_calendar(_kept(found))

    async def load(self, keys: Collection[CalendarKey]) -> dict[CalendarKey, Calendar]:
        found = await self._space.find_all([calendar_key(self._space, tenant, name=name) for tenant, name in keys])
        return {(one.tenant_id, one.name): one.calendar for one in _readable(present(found))}

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[StoredCalendar]:
        return _readable(await self._space.scan(self._space.names_after(after, "calendars", tenant_id), limit))

    async def list_users(
        self, tenant_id: TenantId, name: str, *, after: str = "", limit: int = 100
    ) -> list[TaskConfig]:
        folder = (USES, tenant_id, name)
        return await list_configs(self._space, folder, tenant_id=tenant_id, after=after, limit=limit)

    async def delete(self, tenant_id: TenantId, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        key, uses = calendar_key(self._space, tenant_id, name=name), self._space.all(USES, tenant_id, name)
        while True:
            found = await self._space.find(key)
            if found is None:
                return False
            users = await self._space.scan(uses, NAMED_USERS)
            if users:
                raise CalendarInUseError(name, types=[name_of(kv) for kv in users])
            conditions = [is_unchanged(key, found.mod_revision), is_empty(uses)]
            if (await self._space.client.write([delete(key), *audit_ops(self._space, audit)], when=conditions)).is_met:
                return True


def _kept(kv: KV) -> KeptCalendar:
    return KeptCalendar(tenant_id=tenant_of(kv), name=name_of(kv), revision=kv.version, written=kv.value)


def _readable(kvs: Iterable[KV]) -> list[StoredCalendar]:
    return list_readable(map(_kept, kvs))
