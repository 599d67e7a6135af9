"""Calendars in memory."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from rota.application.ports.store import CalendarKey
from rota.domain.audit import AuditEntry
from rota.domain.calendar import NAMED_USERS, Calendar, StoredCalendar
from rota.domain.errors import CalendarInUseError, RevisionConflictError
from rota.domain.ids import TenantId
from rota.domain.task_config import TaskConfig
from rota.infrastructure.store.memory.state import MemoryState


class MemoryCalendarStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def put(
        self, calendar: StoredCalendar, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> StoredCalendar:
        key = (calendar.tenant_id, calendar.name)
        current = self._state.calendars.get(key)
        if current is not None and calendar.is_repeat_of(current, expected_revision=expected_revision):
            return current
        revision = current.revision if current is not None else 0
        if expected_revision is not None and expected_revision != revision:
            raise RevisionConflictError(calendar.name, expected=expected_revision, current=revision, kind="calendar")
        now = self._state.clock.now()
        created_at = current.created_at if current is not None else now
        stored = replace(calendar, revision=revision + 1, created_at=created_at, updated_at=now)
        self._state.calendars[key] = stored
        self._state.record(audit)
        return stored

    async def find(self, tenant_id: TenantId, name: str) -> StoredCalendar | None:
        return self._state.calendars.get((tenant_id, name))

    async def load(self, keys: Collection[CalendarKey]) -> dict[CalendarKey, Calendar]:
        known = self._state.calendars
        return {key: known[key].calendar for key in keys if key in known}

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[StoredCalendar]:
        keys = sorted(key for key in self._state.calendars if key[0] == tenant_id and key[1] > after)
        return [self._state.calendars[key] for key in keys[:limit]]

    async def list_users(
        self, tenant_id: TenantId, name: str, *, after: str = "", limit: int = 100
    ) -> list[TaskConfig]:
        configs = (config for key, config in sorted(self._state.configs.items()) if key[0] == tenant_id)
        users = [one for one in configs if one.schedule is not None and name in one.schedule.calendars]
        return [one for one in users if one.type > after][:limit]

    async def delete(self, tenant_id: TenantId, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        if (tenant_id, name) not in self._state.calendars:
            return False
        users = await self.list_users(tenant_id, name, limit=NAMED_USERS)
        if users:
            raise CalendarInUseError(name, types=[one.type for one in users])
        del self._state.calendars[tenant_id, name]
        self._state.record(audit)
        return True
