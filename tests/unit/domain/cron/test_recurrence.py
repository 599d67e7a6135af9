from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random
from zoneinfo import ZoneInfo, available_timezones

import pytest

from rota.domain.cron.dialect import Dialect
from rota.domain.cron.expression import parse_cron
from rota.domain.cron.recurrence import DstGap, DstOverlap, EveryRecurrence, between, recur
from rota.domain.cron.stretches import forget_zones, stretch_at
from rota.domain.errors import InvalidError
from tests.support.cron_oracle import (
    ZONES,
    disagreements,
    fires_in,
    fires_over_years,
    look_at,
    random_sample,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
FIRST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("seed", range(12))
def test_next_and_previous_are_what_somebody_sees_who_looks_at_the_clock(seed: int) -> None:
    cases = list(islice(disagreements(Random(seed), instants=3), 450))

    assert [case for case in cases if case is not None] == []


@pytest.mark.parametrize("seed", range(3))
def test_rare_days_are_found_years_ahead_and_years_ago(seed: int) -> None:
    random, years = Random(seed), range(2023, 2029)
    begin, end = datetime(2023, 1, 3, tzinfo=UTC), datetime(2028, 12, 28, tzinfo=UTC)
    for _ in range(12):
        sample, zone = random_sample(random, is_rare=True), random.choice(ZONES)
        try:
            expression = parse_cron(sample.text, dialect=sample.dialect)
        except InvalidError as refusal:
            assert "never fires" in refusal.problem
            continue
        recurrence = recur(expression, zone=zone, gap=DstGap.SKIP)
        expected = [at for at in sorted(set(fires_over_years(sample, zone, years=years))) if begin <= at < end]
        assert list(between(recurrence, begin, end=end)) == expected, (sample.text, zone)
        for at, following in zip(expected[::5], expected[5::5], strict=False):
            middle = at + (following - at) / 2
            assert recurrence.previous(middle) == max(one for one in expected if one < middle), (sample.text, zone)


@pytest.mark.parametrize("text", ["30 2 * * 0", "30 2 25 * *", "30 2 25 10 *"])
def test_a_rare_time_that_is_shown_twice_is_not_jumped_over(text: str) -> None:
    early, late = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    both = recur(parse_cron(text), zone="Europe/Berlin", overlap=DstOverlap.BOTH)
    second = recur(parse_cron(text), zone="Europe/Berlin", overlap=DstOverlap.SECOND)

    assert (both.next(early), both.previous(late)) == (late, early)
    for instant in (early - MINUTE, early, early + 15 * MINUTE, late - MINUTE):
        assert second.next(instant) == late
        assert both.previous(instant + 45 * MINUTE) in (early, late)
    first = recur(parse_cron(text), zone="Europe/Berlin")
    for instant in (early + MINUTE, late, late + MINUTE):
        assert first.previous(instant) == early


def test_the_day_that_samoa_left_out_is_a_gap_like_any_other() -> None:
    scene = look_at("Pacific/Apia", datetime(2011, 12, 29, 12, tzinfo=UTC), length=2 * DAY, step=MINUTE)
    random = Random(1)
    for _ in range(60):
        sample = random_sample(random)
        try:
            expression = parse_cron(sample.text, dialect=sample.dialect)
        except InvalidError:
            continue
        for gap in DstGap:
            recurrence = recur(expression, zone=scene.zone, gap=gap)
            expected = fires_in(scene, sample, gap=gap, overlap=DstOverlap.FIRST)
            assert list(between(recurrence, scene.begin, end=scene.end)) == expected, (sample.text, gap)


@pytest.mark.parametrize(
    "text", ["*/5 * * * *", "30 9 * * 1-5", "0 0 29 2 *", "@every 7m", "0 0 L * *", "*/7 * * * * *"]
)
def test_targets_only_ever_grow_and_back_is_the_same_way(text: str) -> None:
    recurrence = recur(parse_cron(text), zone="Europe/Berlin")
    targets = list(islice(between(recurrence, NOON, end=LATEST), 40))

    assert targets == sorted(set(targets))
    assert [recurrence.previous(target) for target in targets[1:]] == targets[:-1]
    assert [recurrence.next(target - timedelta(microseconds=1)) for target in targets] == targets
    assert [recurrence.previous(target + timedelta(microseconds=1)) for target in targets] == targets


def test_between_has_its_begin_and_not_its_end() -> None:
    recurrence = recur(parse_cron("0 * * * *"))

    assert list(between(recurrence, NOON, end=NOON + timedelta(hours=2))) == [NOON, NOON + timedelta(hours=1)]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin"])
@pytest.mark.parametrize("text", ["* * * * *", "30 2 * * *", "0 0 1 1 *"])
def test_there_is_nothing_before_1970_and_from_2100_on(zone: str, text: str) -> None:
    recurrence = recur(parse_cron(text), zone=zone)
    first, last = recurrence.next(FIRST - 400 * DAY), recurrence.previous(LATEST + 400 * DAY)

    assert first is not None
    assert last is not None
    assert FIRST <= first <= FIRST + 366 * DAY
    assert LATEST - 366 * DAY <= last < LATEST
    assert recurrence.previous(first) is None
    assert recurrence.next(last) is None
    assert recurrence.previous(FIRST) is None
    assert recurrence.next(LATEST) is None


def test_a_bounded_expression_ends() -> None:
    recurrence = recur(parse_cron("0 0 12 1 1 ? 2025,2026", dialect=Dialect.QUARTZ), zone="Asia/Tokyo")

    assert recurrence.next(NOON) is None
    assert recurrence.previous(datetime(2025, 1, 1, tzinfo=UTC)) is None
    assert recurrence.previous(NOON) == datetime(2026, 1, 1, 3, tzinfo=UTC)


def test_a_time_in_the_gap_alone_may_never_fire_in_a_zone() -> None:
    expression = parse_cron("0 30 2 29 3 ? 2026", dialect=Dialect.QUARTZ)

    assert recur(expression, zone="Europe/Berlin", gap=DstGap.SKIP).next(FIRST) is None
    assert recur(expression, zone="Europe/Berlin").next(FIRST) == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_a_pace_counts_from_its_anchor_in_both_directions() -> None:
    pace = EveryRecurrence(timedelta(minutes=40), anchor=NOON)

    assert pace.next(NOON) == NOON + 40 * MINUTE
    assert pace.next(NOON - MINUTE) == NOON
    assert pace.previous(NOON) == NOON - 40 * MINUTE
    assert pace.previous(NOON + MINUTE) == NOON
    assert pace.next(LATEST - MINUTE) is None
    assert pace.previous(FIRST) is None


@pytest.mark.parametrize("zone", sorted(available_timezones())[::40])
def test_the_stretches_of_a_zone_are_those_that_its_clock_shows(zone: str) -> None:
    clock = ZoneInfo(zone)
    forget_zones()
    for year in (1970, 1996, 2011, 2026, 2099):
        for instant in range(int(datetime(year, 1, 1, tzinfo=UTC).timestamp()), int(LATEST.timestamp()), 40_000):
            if instant > datetime(year + 1, 1, 1, tzinfo=UTC).timestamp():
                break
            stretch = stretch_at(zone, instant)
            offset = datetime.fromtimestamp(instant, clock).utcoffset()
            assert stretch.begin <= instant < stretch.end
            assert offset == timedelta(seconds=stretch.offset)
