"""Sums for reports."""

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.ids import DEFAULT_TENANT, TaskId, first_id_at
from rota.domain.rollup import (
    IDS_AHEAD,
    LAST_BUCKET,
    Figures,
    Grain,
    LeftBehind,
    Progress,
    Reach,
    RollupKey,
    Spread,
    TaskFacts,
    bucket_of,
    micros,
    replace_left,
    sum_up,
)
from rota.domain.task import CANCELLED, FAILED, SUCCESS, TIMEOUT, TaskStatus
from rota.testing.values import replace
from tests.support.builders import EMAIL, NOW

SECOND_US = 1_000_000
DAY_US = Grain.DAY.width_us


def facts(status: TaskStatus | None = SUCCESS, **changes: Any) -> TaskFacts:
    """A task that was made at the first moment of a day, waited a second, and ran for two."""
    begin = DAY_US * 20_000
    plain = TaskFacts(
        id=TaskId(1),
        tenant_id=DEFAULT_TENANT,
        type=EMAIL,
        status=status,
        created_us=begin,
        due_us=begin,
        started_us=begin + SECOND_US,
        completed_us=begin + 3 * SECOND_US,
        attempt=1,
    )
    return replace(plain, **changes)


def a_spread(*durations_us: int) -> Spread:
    spread = Spread()
    for one in durations_us:
        spread.add(one)
    return spread


def test_pieces_of_time_begin_at_whole_multiples() -> None:
    moment = micros(datetime(2026, 11, 16, 13, 44, 59, 999_999, tzinfo=UTC))
    starts = [datetime.fromtimestamp(grain.start_of(moment) / SECOND_US, UTC) for grain in Grain]
    midnight = datetime(2026, 11, 16, tzinfo=UTC)
    assert starts == [midnight.replace(hour=13, minute=30), midnight.replace(hour=13), midnight]


def test_an_empty_spread_says_nothing() -> None:
    assert Spread().mean_us is None
    assert Spread().percentile_us(0.5) is None
    other = a_spread(5)
    other.merge(Spread())
    assert other == a_spread(5)


def test_a_spread_knows_the_extremes_the_sum_and_the_mean() -> None:
    spread = a_spread(3000, 1000, 5000)
    assert (spread.count, spread.sum_us, spread.least_us, spread.most_us) == (3, 9000, 1000, 5000)
    assert spread.mean_us == 3000


def test_a_duration_below_nothing_is_none() -> None:
    assert a_spread(-5) == a_spread(0)


@pytest.mark.parametrize("number", [1, 7, 1000])
def test_percentiles_are_within_five_percent_of_the_exact_ones(number: int) -> None:
    chance = random.Random(number)
    durations = sorted(int(math.exp(chance.uniform(math.log(1000), math.log(3600e6)))) for _ in range(number))
    spread = a_spread(*durations)
    for fraction in (0.01, 0.5, 0.95, 0.99, 1.0):
        exact = durations[math.ceil(fraction * number) - 1]
        assert spread.percentile_us(fraction) == pytest.approx(exact, rel=0.05)


def test_percentiles_are_not_beyond_the_extremes() -> None:
    assert a_spread(100).percentile_us(0.99) == 100
    assert a_spread(10**16).percentile_us(0.5) == 10**16
    assert bucket_of(10**16) == LAST_BUCKET


@given(st.lists(st.integers(0, 10**13)), st.lists(st.integers(0, 10**13)))
def test_two_spreads_merge_into_that_of_all(some: list[int], others: list[int]) -> None:
    merged = a_spread(*some)
    merged.merge(a_spread(*others))
    assert merged == a_spread(*some, *others)


def test_how_tasks_ended_is_counted() -> None:
    figures = Figures()
    for one in (
        facts(SUCCESS, attempt=3, retry_count=1),
        facts(FAILED),
        facts(FAILED, is_quarantined=True),
        facts(TIMEOUT),
        facts(CANCELLED, started_us=0, attempt=0),
    ):
        figures.add_end(one)
    counts = (figures.succeeded, figures.failed, figures.timed_out, figures.cancelled, figures.quarantined)
    assert counts == (1, 2, 1, 1, 1)
    assert (figures.ended, figures.failures, figures.attempts, figures.retries) == (5, 3, 6, 1)
    assert figures.success_rate == 0.25


def test_runs_are_of_what_was_not_cancelled_and_waits_of_what_needed_one_attempt() -> None:
    figures = Figures()
    for one in (facts(), facts(CANCELLED), facts(attempt=2), facts(TIMEOUT, started_us=0, attempt=0)):
        figures.add_end(one)
    assert (figures.run.count, figures.run.sum_us) == (2, 4 * SECOND_US)
    assert (figures.wait.count, figures.wait.sum_us) == (2, 2 * SECOND_US)


def test_where_nothing_was_judged_there_is_no_rate() -> None:
    assert Figures(cancelled=5).success_rate is None


def test_a_task_counts_where_it_was_made_and_where_it_ended() -> None:
    one = facts(completed_us=DAY_US * 20_000 + 50 * 60 * SECOND_US)
    added = sum_up(new=[one], ended=[one])
    begin = DAY_US * 20_000
    by_grain = {grain: {key.start_us - begin: added[key] for key in added if key.grain is grain} for grain in Grain}
    submitted = {grain: {at: one.submitted for at, one in found.items()} for grain, found in by_grain.items()}
    quarter = Grain.QUARTER.width_us
    assert submitted == {Grain.QUARTER: {0: 1, 3 * quarter: 0}, Grain.HOUR: {0: 1}, Grain.DAY: {0: 1}}
    assert by_grain[Grain.QUARTER][3 * quarter].succeeded == by_grain[Grain.DAY][0].succeeded == 1


def test_tenants_and_types_are_summed_apart() -> None:
    tasks = [facts(), facts(tenant_id="other"), facts(type="b"), facts()]
    days = {key: one.succeeded for key, one in sum_up(new=(), ended=tasks).items() if key.grain is Grain.DAY}
    start = DAY_US * 20_000
    assert days == {
        RollupKey(DEFAULT_TENANT, Grain.DAY, start, EMAIL): 2,
        ("other", Grain.DAY, start, EMAIL): 1,
        (DEFAULT_TENANT, Grain.DAY, start, "b"): 1,
    }


def test_all_is_counted_up_to_where_tasks_were_passed_and_looked_at() -> None:
    assert Progress().complete_until is None
    swept = first_id_at(NOW)
    assert Progress(1, swept, NOW).complete_until == NOW - IDS_AHEAD
    early = NOW - timedelta(hours=1)
    assert Progress(1, swept, early).complete_until == early


def test_days_are_kept_longer() -> None:
    reach = Reach(fine=timedelta(days=1), days=timedelta(days=9))
    assert [reach.of(grain).days for grain in Grain] == [1, 1, 9]


def test_lists_lose_those_that_ended_and_those_alone_change() -> None:
    chunks = [LeftBehind(3, (TaskId(3), TaskId(5))), LeftBehind(10, (TaskId(11),)), LeftBehind(20, (TaskId(20),))]
    alive = [TaskId(3), TaskId(11)]
    assert replace_left(chunks, alive, upto=99, most=5) == {3: (3,), 20: ()}


def test_those_that_came_late_are_put_where_they_belong() -> None:
    chunks = [LeftBehind(3, (TaskId(3),)), LeftBehind(10, (TaskId(11),))]
    alive = [TaskId(one) for one in (1, 2, 3, 8, 11, 50)]
    assert replace_left(chunks, alive, upto=99, most=2) == {1: (1, 2), 3: (3, 8), 10: (11, 50)}
    assert replace_left([], alive[:3], upto=99, most=2) == {1: (1, 2), 3: (3,)}


def test_what_is_beyond_stays_in_a_list_of_its_own() -> None:
    chunks = [LeftBehind(3, tuple(TaskId(one) for one in range(3, 9))), LeftBehind(30, (TaskId(30),))]
    alive = [TaskId(3), TaskId(4), TaskId(5)]
    assert replace_left(chunks, alive, upto=6, most=2) == {3: (3, 4), 5: (5,), 7: (7, 8)}


@given(st.sets(st.integers(1, 60)), st.sets(st.integers(1, 60)), st.integers(1, 60), st.integers(1, 7))
def test_lists_hold_what_lives_and_what_is_beyond(known: set[int], alive: set[int], upto: int, most: int) -> None:
    ids = [TaskId(one) for one in sorted(known)]
    chunks = [LeftBehind(part[0], tuple(part)) for at in range(0, len(ids), 5) if (part := ids[at : at + 5])]
    living = [TaskId(one) for one in sorted(alive) if one <= upto]
    kept = {chunk.key: chunk.ids for chunk in chunks} | replace_left(chunks, living, upto=upto, most=most)
    held = [one for key in sorted(kept) for one in kept[key]]
    assert held == [*living, *(one for one in ids if one > upto)]
    assert all(not held or key <= held[0] for key, held in kept.items())
    assert all(any(key > upto for key in kept if kept[key] and one in kept[key]) for one in held if one > upto)
