"""What people do with calendars: look, define, delete. Schedules that name one follow its changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

import structlog

from rota.application.audit import Actor, record
from rota.application.calendars import calendars_of, calendars_of_all
from rota.application.node import Node
from rota.application.ports.days import DaySource
from rota.application.ports.store import MOST_LOOKED_THROUGH
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.checks import check_number
from rota.domain.errors import InvalidError, NotFoundError
from rota.domain.firing import NO_CALENDARS, Calendars
from rota.domain.ids import TenantId
from rota.domain.paging import MAX_PAGE
from rota.domain.realigning import CalendarChange, has_run, realign, skip_ahead
from rota.domain.task_config import TaskConfig

MOST_TRIES = 10  # against a schedule that changes under our hands
MOST_YEARS = 30
YEARS_AHEAD = 1  # holidays are decided from year to year: later ones would be guesses

log = structlog.get_logger(__name__)


class CountryDays(StrEnum):
    """Which days of a country a calendar holds."""

    BUSINESS_DAYS = "business_days"
    HOLIDAYS = "holidays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a calendar gets its days from, beside those that are written down."""

    country: str | None = None
    subdivision: str | None = None
    days: CountryDays = CountryDays.BUSINESS_DAYS
    first_year: int | None = None  # None: the one before this
    last_year: int | None = None  # None: the next
    ics: str | None = None


@dataclass(frozen=True, slots=True)
class ManageCalendars:
    node: Node
    days: DaySource | None = field(default=None)

    async def get(self, tenant_id: TenantId, name: str) -> StoredCalendar:
        found = await self.node.store.calendars.find(tenant_id, name)
        if found is None:
            raise NotFoundError("calendar", name)
        return found

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> Sequence[StoredCalendar]:
        """A page of the tenant's calendars by name."""
        check_number("limit", limit, least=1, most=MAX_PAGE)
        return await self.node.store.calendars.list_page(tenant_id, after=after, limit=limit)

    async def put(
        self,
        wanted: StoredCalendar,
        *,
        sources: Sources | None = None,
        expected_revision: int | None = None,
        actor: Actor | None = None,
    ) -> StoredCalendar:
        """Create or replace it; with `expected_revision` (0: it must be new) only that one is replaced.

        Schedules whose targets it moves are aimed anew, from now on."""
        if expected_revision is not None:
            check_number("revision", expected_revision, least=0, most=2**31 - 1)
        if sources is not None:
            wanted = await self._filled(wanted, sources)
        audit = record(self.node, actor, action="calendar.put", subject=wanted.name, detail=wanted.origin)
        before = await self._find_readable(wanted)
        stored = await self.node.store.calendars.put(wanted, expected_revision=expected_revision, audit=audit)
        calendar = stored.calendar
        while True:  # again if it changed meanwhile: whoever changed it may have been done with a schedule before us
            await self._aim_users(stored, before)
            before, calendar = calendar, await self._find_readable(stored)
            if calendar == before:
                return stored

    async def delete(self, tenant_id: TenantId, name: str, *, actor: Actor | None = None) -> None:
        """Remove it, unless a schedule names it."""
        audit = record(self.node, actor, action="calendar.delete", subject=name)
        if not await self.node.store.calendars.delete(tenant_id, name, audit=audit):
            raise NotFoundError("calendar", name)

    async def _filled(self, wanted: StoredCalendar, sources: Sources) -> StoredCalendar:
        """The calendar with the days of its sources: what is stored is complete, whoever fires with it."""
        if self.days is None:
            raise InvalidError("country", "and ics cannot be read by this program")
        calendar, origins = wanted.calendar, []
        if sources.ics is not None:
            read = await self.days.of_ics(calendar.name, sources.ics)
            calendar = replace(calendar, dates=calendar.dates | read.dates, periods=(*calendar.periods, *read.periods))
            origins.append("an iCalendar file")
        if sources.country is not None:
            calendar, known = await self._with_country(calendar, sources, days=self.days)
            origins.append(f"the {sources.days} of {sources.country} {sources.subdivision or ''}".rstrip() + known)
        return replace(wanted, calendar=calendar, origin=", ".join(origins))

    async def _with_country(self, calendar: Calendar, sources: Sources, *, days: DaySource) -> tuple[Calendar, str]:
        """The calendar with the days of the country, and in words until when they are known, if that is not clear."""
        if calendar.business_days is not None:
            raise InvalidError("business_days", "cannot be given beside country")
        if calendar.years is not None:
            raise InvalidError("years", "cannot be given beside country; give first_year and last_year")
        this_year = self.node.time.now().year
        first = this_year - 1 if sources.first_year is None else sources.first_year
        last = max(this_year + YEARS_AHEAD, first) if sources.last_year is None else sources.last_year
        if not 0 <= last - first < MOST_YEARS:
            raise InvalidError("last_year", f"must be {first} to {first + MOST_YEARS - 1}: {MOST_YEARS} years at most")
        found = await days.of_country(sources.country or "", range(first, last + 1), subdivision=sources.subdivision)
        known = ""
        if found.worked_until is not None:
            known = f", with the days that are worked instead until {found.worked_until}"
            if found.is_announced_yearly:
                _check_announced(sources, found.worked_until, needed=max(first, min(this_year, last)))
                last = found.worked_until
        if sources.days is CountryDays.HOLIDAYS:
            return replace(calendar, dates=calendar.dates | found.days.holidays, years=(first, last)), known
        return replace(calendar, business_days=found.days, years=(first, last)), known

    async def _find_readable(self, wanted: StoredCalendar) -> Calendar:
        """What is about to be replaced; the new one, where nobody can tell."""
        found = await self.node.store.calendars.load([(wanted.tenant_id, wanted.name)])
        return found.get((wanted.tenant_id, wanted.name), wanted.calendar)

    async def _aim_users(self, stored: StoredCalendar, before: Calendar) -> None:
        """Let the schedules that it moves know: their next fire time was found with what it said before."""
        after = ""
        while page := await self.node.store.calendars.list_users(stored.tenant_id, stored.name, after=after):
            known = await calendars_of_all(self.node.store.calendars, page)
            for config in page:
                await self._follow(config, before, known=known.get(stored.tenant_id, NO_CALENDARS))
            after = page[-1].type

    async def _follow(self, config: TaskConfig, before: Calendar, *, known: Calendars) -> None:
        """Aim a schedule anew. One that fires or changes meanwhile is read again: what was found is not its own."""
        key = (config.tenant_id, config.type)
        for _ in range(MOST_TRIES):
            calendars = {
                name: one for name, one in known.items() if config.schedule and name in config.schedule.calendars
            }
            if await self._aim(config, CalendarChange({**calendars, before.name: before}, calendars)):
                return
            seen, found = config, await self.node.store.configs.find_many([key])
            if key not in found:
                return
            config = found[key]
            known = await calendars_of(self.node.store.calendars, config.tenant_id, schedule=config.schedule)
            if not config.has_targets_of(seen):  # they count from when it was changed, and none was moved before
                before = known.get(before.name, before)
        log.warning("calendar.user_not_aimed", task_type=config.type, tenant=config.tenant_id)

    async def _aim(self, config: TaskConfig, change: CalendarChange) -> bool:
        """False: another was faster."""
        schedule, seen_at = config.schedule, config.next_fire_at
        if schedule is None or seen_at is None or not schedule.moves:
            return True
        now = self.node.time.now()
        try:
            realigned = realign(config, now, change=change, ran=await self._list_runs(config))
        except InvalidError as exc:  # firing says so, on record
            log.warning("calendar.user_unreadable", task_type=config.type, error=str(exc))
            return True
        schedules, next_fire_at = self.node.store.schedules, realigned.next_fire_at
        if realigned.skipped:
            firing = skip_ahead(config, realigned)
            await schedules.fire([firing])
            # The aim tells whether that took effect: its own answer is the same if all is noted already.
            return await schedules.aim(replace(config, next_fire_at=firing.next_fire_at), next_fire_at)
        return next_fire_at == seen_at or await schedules.aim(config, next_fire_at)

    async def _list_runs(self, config: TaskConfig) -> set[datetime]:
        """The targets that have run and that the calendar may have moved."""
        noted = await self.node.store.schedules.list_occurrences(
            config.tenant_id, config.type, limit=MOST_LOOKED_THROUGH
        )
        return {one.fire_at for one in noted if has_run(one)}


def _check_announced(sources: Sources, known_until: int, *, needed: int) -> None:
    """Raise `InvalidError` for years that nobody knows yet; what nobody asked for by its number is left out instead."""
    if sources.last_year is None and needed <= known_until:
        return
    where = "country" if sources.last_year is None else "last_year"
    known = f"the days of {sources.country} are announced from year to year, and known here until {known_until}"
    raise InvalidError(where, f"{known}; a newer release of the package holidays may know more")
