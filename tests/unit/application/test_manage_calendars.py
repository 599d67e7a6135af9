"""Calendars, as people change them, and the schedules that follow."""

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from rota.application.audit import Actor
from rota.application.manage_calendars import CountryDays, ManageCalendars, Sources
from rota.application.manage_configs import ManageConfigs
from rota.application.ports.days import DaysOfCountry
from rota.application.ports.store import CalendarKey
from rota.application.submit import SubmitTasks
from rota.domain.calendar import BusinessDays, Calendar, Period, StoredCalendar
from rota.domain.errors import CalendarInUseError, InvalidError, NotFoundError
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import Occurrence, OnExcluded, Schedule
from rota.domain.task_config import TaskConfig
from tests.support.builders import EMAIL, HOUR, a_config
from tests.support.virtual import Bench, a_bench, virtually

ADA = Actor(tenant_id=DEFAULT_TENANT, name="ada")
KEY = (DEFAULT_TENANT, EMAIL)
DAY = timedelta(days=1)
HOLIDAYS = frozenset({date(2026, 10, 1)})
PERIOD = Period(begin=datetime(2026, 1, 1, tzinfo=UTC), end=datetime(2026, 1, 2, tzinfo=UTC))


class FewDays:
    """A source that knows one country, and remembers what it was asked."""

    def __init__(self) -> None:
        self.worked_until: int | None = None
        self.is_announced_yearly = True
        self.asked: list[tuple[str, list[int], str | None]] = []

    async def of_country(self, country: str, years: Sequence[int], *, subdivision: str | None = None) -> DaysOfCountry:
        self.asked.append((country, list(years), subdivision))
        return DaysOfCountry(BusinessDays(holidays=HOLIDAYS), self.worked_until, self.is_announced_yearly)

    async def of_ics(self, name: str, text: str) -> Calendar:
        return Calendar(name=name, dates=frozenset({date(2026, 5, 1)}), periods=(PERIOD,))


async def a_manager() -> tuple[Bench, ManageCalendars, FewDays]:
    bench, days = await a_bench(), FewDays()
    return bench, ManageCalendars(bench.node, days), days


def a_calendar(*days: date, **facts: Any) -> StoredCalendar:
    return StoredCalendar(calendar=Calendar(name="closed", dates=frozenset(days)), **facts)


@virtually
async def test_a_calendar_is_put_found_listed_and_deleted_on_record() -> None:
    bench, calendars, _ = await a_manager()
    stored = await calendars.put(a_calendar(date(2026, 1, 1)), expected_revision=0, actor=ADA)
    assert await calendars.get(DEFAULT_TENANT, "closed") == stored
    assert await calendars.list_page(DEFAULT_TENANT) == [stored]
    await calendars.delete(DEFAULT_TENANT, "closed", actor=ADA)
    with pytest.raises(NotFoundError) as caught:
        await calendars.get(DEFAULT_TENANT, "closed")
    assert caught.value.code == "calendar_not_found"
    with pytest.raises(NotFoundError):
        await calendars.delete(DEFAULT_TENANT, "closed")
    actions = [one.action for one in await bench.node.store.audit.list_page(DEFAULT_TENANT)]
    assert actions == ["calendar.delete", "calendar.put"]


@virtually
async def test_what_is_out_of_range_is_refused() -> None:
    _, calendars, _ = await a_manager()
    with pytest.raises(InvalidError, match="revision"):
        await calendars.put(a_calendar(), expected_revision=-1)
    with pytest.raises(InvalidError, match="limit"):
        await calendars.list_page(DEFAULT_TENANT, limit=0)


@virtually
async def test_a_calendar_in_use_is_not_deleted() -> None:
    bench, calendars, _ = await a_manager()
    await calendars.put(a_calendar())
    await bench.node.store.configs.put(a_config(EMAIL, schedule=Schedule(every=HOUR, exclude=("closed",))))
    with pytest.raises(CalendarInUseError, match=EMAIL):
        await calendars.delete(DEFAULT_TENANT, "closed", actor=ADA)
    assert await bench.node.store.audit.list_page(DEFAULT_TENANT) == []


@virtually
async def test_the_business_days_of_a_country_come_from_last_year_to_next_year() -> None:
    bench, calendars, days = await a_manager()
    this_year = bench.node.time.now().year
    stored = await calendars.put(a_calendar(), sources=Sources(country="CN"))
    assert days.asked == [("CN", [this_year - 1, this_year, this_year + 1], None)]
    assert stored.calendar.business_days == BusinessDays(holidays=HOLIDAYS)
    assert stored.calendar.years == (this_year - 1, this_year + 1)
    assert stored.origin == "the business_days of CN"


@virtually
async def test_the_holidays_of_a_country_and_the_days_of_a_file_are_added() -> None:
    _, calendars, days = await a_manager()
    sources = Sources(
        country="DE", subdivision="BY", days=CountryDays.HOLIDAYS, first_year=2030, last_year=2031, ics="BEGIN…"
    )
    stored = await calendars.put(a_calendar(date(2026, 1, 6)), sources=sources)
    assert days.asked == [("DE", [2030, 2031], "BY")]
    assert stored.calendar.dates == HOLIDAYS | {date(2026, 1, 6), date(2026, 5, 1)}
    assert (stored.calendar.periods, stored.calendar.business_days) == ((PERIOD,), None)
    assert (stored.calendar.years, stored.origin) == ((2030, 2031), "an iCalendar file, the holidays of DE BY")


@virtually
async def test_a_file_alone_says_nothing_about_years() -> None:
    _, calendars, days = await a_manager()
    stored = await calendars.put(a_calendar(), sources=Sources(ics="BEGIN…"))
    assert (stored.calendar.dates, stored.calendar.years, days.asked) == (frozenset({date(2026, 5, 1)}), None, [])


@virtually
async def test_a_first_year_in_the_future_is_the_last_one_too() -> None:
    _, calendars, days = await a_manager()
    await calendars.put(a_calendar(), sources=Sources(country="CN", first_year=2090))
    assert days.asked == [("CN", [2090], None)]


@virtually
async def test_a_calendar_ends_with_the_last_year_that_is_announced() -> None:
    bench, calendars, days = await a_manager()
    days.worked_until = this_year = bench.node.time.now().year
    stored = await calendars.put(a_calendar(), sources=Sources(country="CN"))
    assert stored.calendar.years == (this_year - 1, this_year)
    assert stored.origin == f"the business_days of CN, with the days that are worked instead until {this_year}"
    with pytest.raises(InvalidError, match=f"known here until {this_year}") as caught:
        await calendars.put(a_calendar(), sources=Sources(country="CN", last_year=this_year + 1))
    assert caught.value.field == "last_year"
    days.worked_until = this_year - 1
    with pytest.raises(InvalidError, match=f"known here until {this_year - 1}") as caught:
        await calendars.put(a_calendar(), sources=Sources(country="CN"))
    assert caught.value.field == "country"


@virtually
async def test_a_country_that_need_not_announce_anything_has_all_years_and_says_what_is_known() -> None:
    bench, calendars, days = await a_manager()
    this_year = bench.node.time.now().year
    days.worked_until, days.is_announced_yearly = this_year - 1, False
    stored = await calendars.put(a_calendar(), sources=Sources(country="HU"))
    assert stored.calendar.years == (this_year - 1, this_year + 1)
    assert stored.origin.endswith(f"worked instead until {this_year - 1}")


@pytest.mark.parametrize(
    ("calendar", "sources", "field"),
    [
        (Calendar(name="c", business_days=BusinessDays()), Sources(country="CN"), "business_days"),
        (Calendar(name="c", years=(2026, 2027)), Sources(country="CN"), "years"),
        (Calendar(name="c"), Sources(country="CN", first_year=2028, last_year=2027), "last_year"),
        (Calendar(name="c"), Sources(country="CN", first_year=2000, last_year=2030), "last_year"),
    ],
)
def test_what_does_not_go_together_is_refused(calendar: Calendar, sources: Sources, field: str) -> None:
    @virtually
    async def scene() -> None:
        _, calendars, _ = await a_manager()
        with pytest.raises(InvalidError) as caught:
            await calendars.put(StoredCalendar(calendar=calendar), sources=sources)
        assert caught.value.field == field
        assert "first_year" not in caught.value.problem.partition(";")[0], "the command has --years alone"

    scene()


@virtually
async def test_a_program_without_a_source_of_days_says_so() -> None:
    bench = await a_bench()
    with pytest.raises(InvalidError, match="cannot be read by this program"):
        await ManageCalendars(bench.node).put(a_calendar(), sources=Sources(country="CN"))


@virtually
async def test_schedules_whose_runs_a_calendar_moves_follow_its_changes() -> None:
    bench, calendars, _ = await a_manager()
    configs, now = ManageConfigs(bench.node, SubmitTasks(bench.node)), bench.node.time.now()
    await calendars.put(a_calendar())
    cron = f"0 {(now + HOUR).hour} * * *"
    moving = Schedule(cron=cron, exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER)
    before = (await configs.put(a_config(EMAIL, schedule=moving))).next_fire_at
    assert before is not None
    skipping = await configs.put(a_config("skipping", schedule=Schedule(cron=cron, exclude=("closed",))))
    ended = a_config("over", schedule=Schedule(at=(now - DAY,), only=("closed",)))
    over = await bench.node.store.configs.put(ended)
    await calendars.put(a_calendar(before.date()))
    assert (await configs.get(*KEY)).next_fire_at == before + DAY
    assert await configs.get(DEFAULT_TENANT, "skipping") == skipping
    assert await configs.get(DEFAULT_TENANT, "over") == over
    await calendars.put(a_calendar(before.date(), description="the same days"))
    assert (await configs.get(*KEY)).next_fire_at == before + DAY
    await calendars.put(a_calendar())
    assert (await configs.get(*KEY)).next_fire_at == before


@virtually
async def test_the_calendars_of_all_schedules_that_follow_a_change_are_read_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, calendars, _ = await a_manager()
    store, later = bench.node.store, bench.node.time.now() + DAY
    await calendars.put(a_calendar())
    await calendars.put(StoredCalendar(calendar=Calendar(name="late")))
    for task_type, names in (("a", ("closed",)), ("b", ("closed", "late")), ("c", ("late", "closed"))):
        moving = Schedule(cron="0 9 * * *", exclude=names, on_excluded=OnExcluded.RUN_AFTER)
        await store.configs.put(a_config(task_type, schedule=moving, next_fire_at=later))
    loaded, load = list[Collection[CalendarKey]](), store.calendars.load

    async def load_and_note(keys: Collection[CalendarKey]) -> dict[CalendarKey, Calendar]:
        loaded.append(keys)
        return await load(keys)

    monkeypatch.setattr(store.calendars, "load", load_and_note)
    await calendars.put(a_calendar(later.date()))
    replaced, of_all, again = map(set, loaded)
    assert replaced == again == {(DEFAULT_TENANT, "closed")}
    assert of_all == {(DEFAULT_TENANT, "closed"), (DEFAULT_TENANT, "late")}


async def a_moved_schedule(bench: Bench, calendars: ManageCalendars) -> tuple[ManageConfigs, datetime]:
    """One whose calendar moves nothing yet, and when it is due."""
    await calendars.put(a_calendar())
    configs = ManageConfigs(bench.node, SubmitTasks(bench.node))
    stored = await configs.put(a_config(EMAIL, schedule=moved(bench.node.time.now() + HOUR)))
    assert stored.next_fire_at is not None
    return configs, stored.next_fire_at


def moved(at: datetime) -> Schedule:
    return Schedule(cron=f"0 {at.hour} * * *", exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER)


@pytest.mark.parametrize("hours", [0, 2])
@virtually
async def test_a_schedule_that_changes_while_it_follows_a_calendar_is_aimed_by_what_it_says_now(hours: int) -> None:
    bench, calendars, _ = await a_manager()
    configs, due_at = await a_moved_schedule(bench, calendars)
    store, wanted_at = bench.node.store, due_at + hours * HOUR
    list_occurrences = store.schedules.list_occurrences

    async def change_and_list(*of: Any, **asked: Any) -> list[Occurrence]:
        if (await configs.get(*KEY)).revision == 1:
            await store.configs.put(
                a_config(EMAIL, schedule=moved(wanted_at), description="newer", next_fire_at=wanted_at)
            )
        return await list_occurrences(*of, **asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.schedules, "list_occurrences", change_and_list)
        await calendars.put(a_calendar(due_at.date()))
    found = await configs.get(*KEY)
    assert (found.revision, found.next_fire_at) == (2, wanted_at + DAY)


@virtually
async def test_a_schedule_that_is_gone_or_never_stands_still_holds_up_no_change_of_a_calendar() -> None:
    bench, calendars, _ = await a_manager()
    configs, due_at = await a_moved_schedule(bench, calendars)
    store = bench.node.store
    find_many = store.configs.find_many

    async def aim_in_vain(*_: Any) -> bool:
        return False

    async def delete_and_find(keys: Collection[Any]) -> dict[Any, Any]:
        await store.configs.delete(*KEY)
        return await find_many(keys)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.schedules, "aim", aim_in_vain)
        await calendars.put(a_calendar(due_at.date()))
        assert (await configs.get(*KEY)).next_fire_at == due_at
        patch.setattr(store.configs, "find_many", delete_and_find)
        await calendars.put(a_calendar(due_at.date(), date(2026, 1, 1)))
    assert await store.configs.find(*KEY) is None


@pytest.mark.parametrize("is_gone", [False, True])
@virtually
async def test_a_schedule_that_is_put_while_its_calendar_changes_follows_it(is_gone: bool) -> None:
    bench, calendars, _ = await a_manager()
    configs, due_at = await a_moved_schedule(bench, calendars)
    store, wanted_at = bench.node.store, due_at + 2 * HOUR
    put = store.configs.put

    async def change_and_put(config: TaskConfig, **asked: Any) -> TaskConfig:
        await calendars.put(a_calendar(due_at.date()))
        stored = await put(config, **asked)
        if is_gone:
            forget_calendar(bench, "closed")
        return stored

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.configs, "put", change_and_put)
        stored = await configs.put(a_config(EMAIL, schedule=moved(wanted_at)))
    assert stored == await configs.get(*KEY)
    assert stored.next_fire_at == (wanted_at if is_gone else wanted_at + DAY)


@virtually
async def test_of_two_changes_of_a_calendar_at_once_schedules_follow_the_last() -> None:
    bench, calendars, _ = await a_manager()
    configs, due_at = await a_moved_schedule(bench, calendars)
    store = bench.node.store
    list_occurrences = store.schedules.list_occurrences

    async def change_and_list(*of: Any, **asked: Any) -> list[Occurrence]:
        patch.setattr(store.schedules, "list_occurrences", list_occurrences)
        await calendars.put(a_calendar(due_at.date() + DAY))  # it leaves the run where it is
        return await list_occurrences(*of, **asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.schedules, "list_occurrences", change_and_list)
        await calendars.put(a_calendar(due_at.date()))
    assert (await configs.get(*KEY)).next_fire_at == due_at


@virtually
async def test_a_schedule_with_another_calendar_that_is_gone_does_not_hold_up_a_change() -> None:
    bench, calendars, _ = await a_manager()
    store = bench.node.store
    await calendars.put(a_calendar())
    await store.calendars.put(StoredCalendar(calendar=Calendar(name="gone")))
    moving = Schedule(cron="0 9 * * *", exclude=("closed", "gone"), on_excluded=OnExcluded.RUN_BEFORE)
    put = await store.configs.put(a_config(EMAIL, schedule=moving, next_fire_at=bench.node.time.now() + DAY))
    forget_calendar(bench, "gone")
    await calendars.put(a_calendar(date(2026, 1, 1)))
    assert await store.configs.find(*KEY) == put


def forget_calendar(bench: Bench, name: str) -> None:
    """As if its row could not be read."""
    inner = vars(bench.node.store.calendars)["_inner"]
    del vars(inner)["_state"].calendars[DEFAULT_TENANT, name]
