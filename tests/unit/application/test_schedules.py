"""Looking at schedules."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.application.schedules import LookAtSchedules
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.cron.recurrence import DstGap
from rota.domain.declaration import mark, unscheduled
from rota.domain.errors import InvalidError, NotFoundError
from rota.domain.firing import FullFiring
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import Occurrence, OnExcluded, Schedule
from tests.support.builders import EMAIL, HOUR, a_config
from tests.support.virtual import a_bench, virtually

KEY = (DEFAULT_TENANT, EMAIL)
DAY = timedelta(days=1)
HOURLY = Schedule(cron="0 * * * *")


@virtually
async def test_the_schedule_of_a_type_is_previewed_with_its_state() -> None:
    bench = await a_bench()
    look, now = LookAtSchedules(bench.node), bench.clock.now()
    await bench.node.store.configs.put(a_config(EMAIL, schedule=HOURLY, next_fire_at=now + HOUR))
    found = await look.preview(*KEY, count=2)
    assert (len(found.upcoming), len(found.recent), found.next_fire_at, found.runs) == (2, 2, now + HOUR, 0)
    await bench.node.store.configs.put(a_config(EMAIL, schedule=HOURLY, is_enabled=False))
    disabled = await look.preview(*KEY, count=2)
    assert (found.state, disabled.next_fire_at, disabled.state) == ("active", None, "disabled")
    paused = Schedule(cron="0 * * * *", is_paused=True)
    await bench.node.store.configs.put(a_config(EMAIL, schedule=paused, next_fire_at=now + HOUR))
    assert (await look.preview(*KEY, count=2)).state == "paused"
    await bench.node.store.configs.put(a_config("over", schedule=HOURLY))
    over = await look.preview(DEFAULT_TENANT, "over", count=2)
    assert (over.upcoming, over.state) == ((), "ended")
    assert len((await look.preview(DEFAULT_TENANT, "over", count=2, after=now)).upcoming) == 2


@virtually
async def test_a_schedule_is_previewed_around_any_moment() -> None:
    bench = await a_bench()
    look = LookAtSchedules(bench.node)
    summer = datetime(2027, 3, 28, tzinfo=UTC)  # clocks in Berlin go from 02:00 to 03:00, at 01:00 UTC
    nightly = Schedule(cron="30 2 * * *", zone="Europe/Berlin")
    found = await look.preview_unsaved(nightly, KEY, count=2, after=summer)
    assert found.upcoming == [summer + HOUR, summer + DAY + HOUR / 2]
    assert found.recent == [summer - DAY + 1.5 * HOUR, summer - 2 * DAY + 1.5 * HOUR]
    ended = Schedule(at=(bench.clock.now() - DAY,))
    assert (await look.preview_unsaved(ended, KEY, count=1)).state == "ended"
    with pytest.raises(InvalidError, match="after"):
        await look.preview_unsaved(nightly, KEY, count=1, after=datetime(1999, 1, 1, tzinfo=UTC))


@virtually
async def test_a_preview_ends_with_the_last_run_that_the_schedule_has_left() -> None:
    bench = await a_bench()
    look, limited = LookAtSchedules(bench.node), Schedule(cron="0 * * * *", max_runs=3)
    await bench.node.store.configs.put(a_config(EMAIL, schedule=limited, next_fire_at=bench.clock.now() + HOUR, runs=1))
    assert len((await look.preview(*KEY, count=5)).upcoming) == 2
    assert len((await look.preview_unsaved(limited, KEY, count=5)).upcoming) == 3


@virtually
async def test_what_is_not_there_is_not_found_and_too_many_are_refused() -> None:
    bench = await a_bench()
    look = LookAtSchedules(bench.node)
    with pytest.raises(NotFoundError) as caught:
        await look.preview(*KEY, count=1)
    assert caught.value.code == "task_config_not_found"
    with pytest.raises(NotFoundError):
        await look.list_occurrences(*KEY, limit=1)
    await bench.node.store.configs.put(a_config(EMAIL))
    with pytest.raises(NotFoundError) as caught:
        await look.preview(*KEY, count=1)
    assert caught.value.code == "schedule_not_found"
    left_out = mark(unscheduled("1f", ["cn", "de"]), names_schedule=True)
    await bench.node.store.configs.put(a_config(EMAIL, executor_config=left_out))
    with pytest.raises(NotFoundError, match="was left out: there was no calendar cn, de; rota calendar put cn, then"):
        await look.preview(*KEY, count=1)
    with pytest.raises(InvalidError):
        await look.preview_unsaved(HOURLY, (DEFAULT_TENANT, ""), count=1001)


@virtually
async def test_occurrences_are_listed() -> None:
    bench = await a_bench()
    store, now = bench.node.store, bench.clock.now()
    await store.configs.put(a_config(EMAIL, schedule=HOURLY, next_fire_at=now))
    skipped = Occurrence(task_type=EMAIL, fire_at=now, reason="overlap")
    firing = FullFiring(
        tenant_id=DEFAULT_TENANT, task_type=EMAIL, revision=1, seen_at=now, next_fire_at=None, occurrences=(skipped,)
    )
    await store.schedules.fire([firing])
    assert await LookAtSchedules(bench.node).list_occurrences(*KEY, limit=10) == [skipped]


@virtually
async def test_a_preview_says_what_calendars_do() -> None:
    bench = await a_bench()
    look, now = LookAtSchedules(bench.node), bench.clock.now()
    days = (now + DAY).date(), (now + 2 * DAY).date()
    closed = Calendar(name="closed", dates=frozenset(days), years=(now.year, now.year))
    await bench.node.store.calendars.put(StoredCalendar(calendar=closed))
    noon = (now + DAY).replace(hour=12, minute=0, second=0, microsecond=0)
    unknown = noon.replace(year=now.year + 1)

    skips = await look.preview_unsaved(Schedule(at=(noon, noon + 5 * DAY, unknown), exclude=("closed",)), KEY, count=5)
    assert [(one.fire_at, one.kind, one.detail) for one in skips.effects] == [
        (noon, "skipped", "in closed"),
        (unknown, "unknown", f"closed knows the years {now.year} to {now.year}, not {now.year + 1}; put it anew"),
    ]
    moving = Schedule(at=(noon,), exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER)
    moves = await look.preview_unsaved(moving, KEY, count=5)
    [moved] = moves.effects
    assert (moved.fire_at, moved.kind, moved.detail) == (noon + 2 * DAY, "moved", "in closed")
    assert moved.moved_from == noon
    with pytest.raises(InvalidError, match="there is no calendar 'moon'"):
        await look.preview_unsaved(Schedule(cron="0 9 * * *", only=("moon",)), KEY, count=5)


@virtually
async def test_a_preview_says_what_clocks_do_that_are_changed() -> None:
    bench = await a_bench()
    look, summer = LookAtSchedules(bench.node), datetime(2027, 3, 28, tzinfo=UTC)
    nightly = Schedule(cron="30 2 * * *", zone="Europe/Berlin")
    moved = await look.preview_unsaved(nightly, KEY, count=2, after=summer)
    assert [(one.fire_at, one.kind, one.detail) for one in moved.effects] == [(summer + HOUR, "clocks_moved", "02:30")]
    skipping = Schedule(cron="30 2 * * *", zone="Europe/Berlin", dst_gap=DstGap.SKIP)
    skipped = await look.preview_unsaved(skipping, KEY, count=2, after=summer)
    assert summer + HOUR not in skipped.upcoming
    assert [(one.fire_at, one.kind) for one in skipped.effects] == [(summer + HOUR, "clocks_skipped")]
    closed = Calendar(name="closed", dates=frozenset({summer.date()}))
    await bench.node.store.calendars.put(StoredCalendar(calendar=closed))
    shut = Schedule(cron="30 2 * * *", zone="Europe/Berlin", exclude=("closed",))
    assert [one.kind for one in (await look.preview_unsaved(shut, KEY, count=2, after=summer)).effects] == ["skipped"]
    later = Schedule(at=(bench.clock.now() + DAY,))
    assert (await look.preview_unsaved(later, KEY, count=1, after=bench.clock.now() + 2 * DAY)).effects == []
    over = Schedule(at=(bench.clock.now() + DAY,), max_runs=1)
    assert (await look.preview_unsaved(over, KEY, count=1, runs=1)).effects == []
