"""The calendars that schedules name, read for those who ask when they fire."""

from collections.abc import Iterable, Mapping

from rota.application.ports.store import CalendarStore
from rota.domain.calendar import Calendar
from rota.domain.firing import NO_CALENDARS, Calendars
from rota.domain.ids import TenantId
from rota.domain.schedule import Schedule
from rota.domain.task_config import TaskConfig


async def calendars_of(store: CalendarStore, tenant_id: TenantId, *, schedule: Schedule | None) -> Calendars:
    """Those that one schedule names, as far as they are there: what is missing, its timetable will say."""
    if schedule is None or not schedule.calendars:
        return NO_CALENDARS
    found = await store.load([(tenant_id, name) for name in schedule.calendars])
    return {name: calendar for (_, name), calendar in found.items()}


async def calendars_of_all(store: CalendarStore, configs: Iterable[TaskConfig]) -> Mapping[TenantId, Calendars]:
    """Those that the schedules of many configs name, with one read, by tenant."""
    keys = {(one.tenant_id, name) for one in configs if one.schedule for name in one.schedule.calendars}
    found: dict[TenantId, dict[str, Calendar]] = {}
    for (tenant_id, name), calendar in (await store.load(keys)).items() if keys else ():
        found.setdefault(tenant_id, {})[name] = calendar
    return found
