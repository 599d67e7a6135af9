"""The contract of `CalendarStore`: calendars under their names, and none that vanishes under a schedule."""

import asyncio
from dataclasses import replace
from datetime import date, time
from typing import Any

import pytest

from rota.domain.audit import AuditEntry
from rota.domain.calendar import BusinessDays, Calendar, Period, StoredCalendar, Window
from rota.domain.errors import CalendarInUseError, InvalidError, RevisionConflictError
from rota.domain.firing import FullFiring
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import Occurrence, Schedule
from rota.domain.task_config import TaskConfig
from rota.testing.contract.store_backend import (
    AWKWARD_TEXTS,
    HOUR,
    MICROSECOND,
    NOON,
    OTHER_TENANT,
    StoreBackend,
    make_tasks,
)

DAY = date(2026, 12, 24)
FULL = Calendar(
    name="full",
    dates=frozenset({DAY, date(2027, 1, 1)}),
    windows=(Window(weekdays=frozenset({6, 7})), Window(begin=time(22, 30), end=time(6, 0, 0, 5))),
    periods=(Period(begin=NOON, end=NOON + HOUR),),
    business_days=BusinessDays(holidays=frozenset({DAY}), workdays=frozenset({date(2026, 12, 26)})),
    years=(2025, 2028),
)


@pytest.mark.asyncio
class TestCalendars:
    async def test_a_calendar_comes_back_whole(self, backend: StoreBackend) -> None:
        one, other = await backend.connect(), await backend.connect()
        wanted = _stored(calendar=FULL, tenant_id=OTHER_TENANT, origin="country CN")
        stored = await one.calendars.put(wanted)
        assert replace(stored, revision=0, created_at=None, updated_at=None) == wanted
        assert stored.revision == 1
        assert stored.created_at == stored.updated_at is not None
        assert await other.calendars.find(OTHER_TENANT, "full") == stored
        assert await other.calendars.load([(OTHER_TENANT, "full")]) == {(OTHER_TENANT, "full"): FULL}

    async def test_awkward_descriptions_come_back_as_they_were(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for number, text in enumerate(AWKWARD_TEXTS):
            await store.calendars.put(_stored(f"c{number}", description=text))
        assert tuple(one.description for one in await store.calendars.list_page(DEFAULT_TENANT)) == AWKWARD_TEXTS

    async def test_what_is_not_there_is_not_found(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.calendars.put(_stored("office"))
        assert await store.calendars.find(OTHER_TENANT, "office") is None
        assert await store.calendars.find(DEFAULT_TENANT, "Office") is None
        keys = [(OTHER_TENANT, "office"), (DEFAULT_TENANT, "moon"), (DEFAULT_TENANT, "office")]
        assert list(await store.calendars.load(keys)) == [(DEFAULT_TENANT, "office")]
        assert await store.calendars.load([]) == {}

    async def test_a_change_makes_a_revision_and_a_repeat_none(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first = await store.calendars.put(_stored())
        assert await store.calendars.put(_stored()) == first
        assert await store.calendars.put(_stored(), expected_revision=0) == first
        second = await store.calendars.put(_stored(description="new"), expected_revision=1)
        assert (second.revision, second.created_at) == (2, first.created_at)
        assert await store.calendars.put(_stored(description="new"), expected_revision=1) == second

    @pytest.mark.parametrize("expected", [0, 2])
    async def test_another_revision_than_the_expected_one_is_left_alone(
        self, backend: StoreBackend, expected: int
    ) -> None:
        store = await backend.connect()
        first = await store.calendars.put(_stored())
        with pytest.raises(RevisionConflictError, match="calendar 'office' is at revision 1"):
            await store.calendars.put(_stored(description="late"), expected_revision=expected)
        assert await store.calendars.find(DEFAULT_TENANT, "office") == first

    async def test_of_two_nodes_that_create_one_wins(self, backend: StoreBackend) -> None:
        nodes = [await backend.connect(), await backend.connect()]
        calls = [
            node.calendars.put(_stored(description=f"of {number}"), expected_revision=0)
            for number, node in enumerate(nodes)
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        [winner] = [answer for answer in answers if isinstance(answer, StoredCalendar)]
        assert await nodes[0].calendars.find(DEFAULT_TENANT, "office") == winner

    async def test_a_list_pages_by_name_within_a_tenant(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for name in ("b", "Z", "a", "ab", "zz"):
            await store.calendars.put(_stored(name))
        await store.calendars.put(_stored("aa", tenant_id=OTHER_TENANT))
        pages = [await store.calendars.list_page(DEFAULT_TENANT, after=after, limit=2) for after in ("", "a", "b")]
        assert [[one.name for one in page] for page in pages] == [["Z", "a"], ["ab", "b"], ["zz"]]

    async def test_changes_are_recorded_and_repeats_are_not(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for number in (1, 2):
            await store.calendars.put(_stored(), audit=[_entry(number)])
        for number in (3, 4):
            await store.calendars.delete(DEFAULT_TENANT, "office", audit=[_entry(number)])
        assert [one.id for one in await store.audit.list_page(DEFAULT_TENANT)] == [3, 1]


@pytest.mark.asyncio
class TestCalendarUse:
    async def test_a_schedule_needs_its_calendars(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.calendars.put(_stored())
        await store.calendars.put(_stored("moon", tenant_id=OTHER_TENANT))
        with pytest.raises(InvalidError, match="there is no calendar 'moon'"):
            await store.configs.put(_config(exclude=("office", "moon")))
        assert await store.configs.find(DEFAULT_TENANT, "report") is None
        await store.configs.put(_config())
        with pytest.raises(InvalidError, match="there is no calendar 'moon'"):
            await store.configs.put(_config(only=("moon",)))
        assert [one.type for one in await store.calendars.list_users(DEFAULT_TENANT, "office")] == ["report"]

    async def test_a_calendar_in_use_is_not_deleted(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.calendars.put(_stored())
        await store.configs.put(_config("disabled", is_enabled=False))
        await store.configs.put(_config("only", only=("office",), exclude=()))
        with pytest.raises(CalendarInUseError, match="named by the schedules of disabled, only"):
            await store.calendars.delete(DEFAULT_TENANT, "office")
        assert await store.calendars.find(DEFAULT_TENANT, "office") is not None

    async def test_it_is_deleted_when_nobody_names_it_any_more(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.calendars.put(_stored())
        await store.configs.put(_config("changed"))
        await store.configs.put(_config("changed", exclude=()))
        await store.configs.put(_config("deleted"))
        await store.configs.delete(DEFAULT_TENANT, "deleted")
        assert await store.calendars.list_users(DEFAULT_TENANT, "office") == []
        assert await store.calendars.delete(DEFAULT_TENANT, "office")
        assert not await store.calendars.delete(DEFAULT_TENANT, "office")

    async def test_its_users_are_listed_by_type(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.calendars.put(_stored())
        stored = [await store.configs.put(_config(name)) for name in ("a", "b", "c")]
        assert await store.calendars.list_users(DEFAULT_TENANT, "office", limit=2) == stored[:2]
        assert await store.calendars.list_users(DEFAULT_TENANT, "office", after="b") == stored[2:]
        assert await store.calendars.list_users(OTHER_TENANT, "office") == []

    async def test_of_a_deletion_and_a_new_user_at_once_one_wins(self, backend: StoreBackend) -> None:
        one, other = await backend.connect(), await backend.connect()
        await one.calendars.put(_stored())
        answers = await asyncio.gather(
            one.calendars.delete(DEFAULT_TENANT, "office"), other.configs.put(_config()), return_exceptions=True
        )
        is_there = await one.calendars.find(DEFAULT_TENANT, "office") is not None
        is_named = await one.configs.find(DEFAULT_TENANT, "report") is not None
        assert is_there is is_named, answers

    async def test_the_next_fire_time_is_moved_while_it_is_the_one_seen(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        wanted = TaskConfig(type="report", schedule=Schedule(cron="0 9 * * *"), next_fire_at=NOON)
        read, aim = await store.configs.put(wanted), store.schedules.aim
        assert not await aim(replace(read, type="moon"), NOON + HOUR)
        assert not await aim(replace(read, next_fire_at=NOON + MICROSECOND), NOON + HOUR)
        assert await aim(read, NOON - HOUR)
        assert not await aim(read, None)
        assert await store.schedules.find_next() == NOON - HOUR
        assert await aim(replace(read, next_fire_at=NOON - HOUR), None)
        assert await store.schedules.find_next() is None

    async def test_the_next_fire_time_of_an_older_revision_is_not_written(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        read = await store.configs.put(TaskConfig(type="report", schedule=Schedule(every=HOUR), next_fire_at=NOON))
        newer = await store.configs.put(replace(read, schedule=Schedule(every=2 * HOUR)))
        assert (newer.next_fire_at, newer.revision) == (NOON, read.revision + 1)
        assert not await store.schedules.aim(read, NOON + HOUR)
        assert await store.schedules.find_next() == NOON
        assert await store.schedules.aim(newer, NOON + HOUR)

    async def test_runs_are_listed_since_a_time_and_skipped_targets_are_not(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.configs.put(TaskConfig(type="report", schedule=Schedule(every=HOUR), next_fire_at=NOON))
        tasks = make_tasks(3)
        ids = [tasks[0].id, None, tasks[1].id, tasks[2].id]
        noted = tuple(
            Occurrence(task_type="report", fire_at=NOON + number * HOUR, task_id=one, reason="" if one else "paused")
            for number, one in enumerate(ids)
        )
        firing = FullFiring(
            tenant_id=DEFAULT_TENANT,
            task_type="report",
            revision=1,
            seen_at=NOON,
            next_fire_at=None,
            occurrences=noted,
            tasks=tuple(tasks),
        )
        await store.schedules.fire([firing])
        runs, key, other = store.schedules.list_runs, (DEFAULT_TENANT, "report"), (OTHER_TENANT, "report")
        assert await runs({key: NOON, other: NOON}) == {key: [noted[3], noted[2], noted[0]], other: []}
        assert await runs({key: NOON}, limit=1) == {key: [noted[3]]}
        assert await runs({key: NOON + 2 * HOUR + MICROSECOND}) == {key: [noted[3]]}
        assert await runs({}) == {}
        times = [one.fire_at for one in noted[:2]]
        asked = [*times, *(NOON - number * HOUR for number in range(1, 1_200))]
        found = store.schedules.find_occurrences
        assert await found(*key, times=asked) == dict(zip(times, noted, strict=False))
        assert await found(*key, times=()) == await found(OTHER_TENANT, "report", times=times) == {}

    async def test_the_runs_of_many_schedules_are_listed_together_also_behind_many_that_were_skipped(
        self, backend: StoreBackend
    ) -> None:
        store = await backend.connect()
        tasks, expected = iter(make_tasks(8)), {}
        for number in range(4):
            task_type, begin = f"report-{number}", NOON + number * MICROSECOND
            await store.configs.put(TaskConfig(type=task_type, schedule=Schedule(every=HOUR), next_fire_at=begin))
            runs = [next(tasks), next(tasks)]
            ids = [runs[0].id, *([None] * 9 if number % 2 else []), runs[1].id, *([None] * 9 * number)]
            noted = tuple(
                Occurrence(
                    task_type=task_type, fire_at=begin + hour * HOUR, task_id=one, reason="" if one else "paused"
                )
                for hour, one in enumerate(ids)
            )
            firing = FullFiring(
                tenant_id=DEFAULT_TENANT,
                task_type=task_type,
                revision=1,
                seen_at=begin,
                next_fire_at=None,
                occurrences=noted,
                tasks=tuple(runs),
            )
            await store.schedules.fire([firing])
            expected[DEFAULT_TENANT, task_type] = [one for one in noted[::-1] if one.task_id is not None]
        assert await store.schedules.list_runs(dict.fromkeys(expected, NOON), limit=2) == expected


def _stored(name: str = "office", *, calendar: Calendar | None = None, **facts: Any) -> StoredCalendar:
    return StoredCalendar(calendar=calendar or Calendar(name=name, dates=frozenset({DAY})), **facts)


def _config(
    task_type: str = "report",
    *,
    only: tuple[str, ...] = (),
    exclude: tuple[str, ...] = ("office",),
    is_enabled: bool = True,
) -> TaskConfig:
    schedule = Schedule(cron="0 9 * * *", only=only, exclude=exclude)
    return TaskConfig(type=task_type, schedule=schedule, is_enabled=is_enabled)


def _entry(number: int) -> AuditEntry:
    return AuditEntry(id=number, tenant_id=DEFAULT_TENANT, at=NOON, actor="ci", action="calendar.put", object="office")
