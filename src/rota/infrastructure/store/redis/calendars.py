"""Calendars in Redis, and which schedules name them.

A config that comes to name a calendar is written with a note that says so, under the condition that the calendar is
there; a calendar is deleted under the condition that there is no such note. So none is deleted under a schedule.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from rota.application.ports.store import CalendarKey
from rota.domain.audit import AuditEntry
from rota.domain.calendar import NAMED_USERS, Calendar, StoredCalendar
from rota.domain.errors import CalendarInUseError, RevisionConflictError
from rota.domain.ids import TenantId
from rota.domain.task_config import TaskConfig
from rota.infrastructure.store.calendar_documents import KeptCalendar, list_readable, read_calendar, write_calendar
from rota.infrastructure.store.redis.configs import field_of, list_configs, list_names, uses_key
from rota.infrastructure.store.redis.space import Change, Place, RedisSpace


class RedisCalendarStore:
    """A document is its revision, and a line of JSON."""

    def __init__(self, space: RedisSpace) -> None:
        self._space = space

    async def put(
        self, calendar: StoredCalendar, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> StoredCalendar:
        space, tenant_id, name = self._space, calendar.tenant_id, calendar.name
        place, now = self._place(tenant_id, name), await space.now()

        def plan(found: Sequence[bytes | None]) -> tuple[Change, StoredCalendar]:
            kept = [_kept((tenant_id, name), one) for one in found if one is not None]
            current = next(iter(list_readable(kept)), None)
            if current is not None and calendar.is_repeat_of(current, expected_revision=expected_revision):
                return Change(), current
            revision = kept[0].revision if kept else 0
            if expected_revision is not None and expected_revision != revision:
                raise RevisionConflictError(name, expected=expected_revision, current=revision, kind="calendar")
            created_at = current.created_at if current is not None else now
            stored = replace(calendar, revision=revision + 1, created_at=created_at, updated_at=now)
            document = b"%d\n%b" % (stored.revision, write_calendar(stored, with_times=True))
            change = Change().put(place, document).write("ZADD", self._names(tenant_id), 0, name)
            return change.note(space, audit), stored

        return await space.decide([place], plan)

    async def find(self, tenant_id: TenantId, name: str) -> StoredCalendar | None:
        found = await self._space.find(self._place(tenant_id, name))
        return None if found is None else read_calendar(_kept((tenant_id, name), found))

    async def load(self, keys: Collection[CalendarKey]) -> dict[CalendarKey, Calendar]:
        found = await self._find_all(list(keys))
        return {(one.tenant_id, one.name): one.calendar for one in list_readable(found)}

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[StoredCalendar]:
        names = await list_names(self._space, self._names(tenant_id), after=after, limit=limit)
        return list_readable(await self._find_all([(tenant_id, name) for name in names]))

    async def list_users(
        self, tenant_id: TenantId, name: str, *, after: str = "", limit: int = 100
    ) -> list[TaskConfig]:
        uses = uses_key(self._space, (tenant_id, name))
        return await list_configs(self._space, uses, tenant_id=tenant_id, after=after, limit=limit)

    async def delete(self, tenant_id: TenantId, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        space, place, uses = self._space, self._place(tenant_id, name), uses_key(self._space, (tenant_id, name))
        while True:
            found = await space.find(place)
            if found is None:
                return False
            users = await list_names(space, uses, after="", limit=NAMED_USERS)
            if users:
                raise CalendarInUseError(name, types=users)
            change = Change().expect(place, found).expect_none([uses]).remove(place)
            if await space.commit(change.write("ZREM", self._names(tenant_id), name).note(space, audit)):
                return True

    def _place(self, tenant_id: TenantId, name: str) -> Place:
        return self._space.calendars, field_of(tenant_id, name)

    def _names(self, tenant_id: TenantId) -> str:
        return self._space.key(f"calendars:names:{tenant_id}")

    async def _find_all(self, keys: Sequence[CalendarKey]) -> Iterable[KeptCalendar]:
        found = await self._space.find_fields(self._space.calendars, [field_of(*key) for key in keys])
        return [_kept(key, one) for key, one in zip(keys, found, strict=True) if one is not None]


def _kept(key: CalendarKey, document: bytes) -> KeptCalendar:
    tenant_id, name = key
    revision, _, written = document.partition(b"\n")
    return KeptCalendar(tenant_id=tenant_id, name=name, revision=int(revision), written=written)
