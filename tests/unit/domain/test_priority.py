from collections import deque
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId, first_id_at
from rota.domain.priority import (
    AGING_STEP,
    HIGH,
    LEVELS,
    NORMAL,
    URGENT,
    effective,
    follow_heads,
    parse_priority,
    serving_order,
)
from tests.support.builders import HOUR, NOW, SECOND
from tests.support.properties import PROPERTY

levels = st.sampled_from(LEVELS)
waits = st.dictionaries(levels, st.timedeltas(timedelta(0), HOUR))


@pytest.mark.parametrize(
    ("given_as", "level"), [("normal", 0), ("high", 5), ("urgent", 9), *[(level, level) for level in LEVELS]]
)
def test_a_priority_is_given_by_number_or_by_name(given_as: int | str, level: int) -> None:
    assert parse_priority(given_as) == level


@pytest.mark.parametrize(
    "wrong",
    [-1, 10, True, "", "5", "URGENT", pytest.param("x" * 100_000, id="long"), pytest.param(10**5000, id="huge")],
)
def test_another_priority_is_refused_without_echoing_it(wrong: int | str) -> None:
    with pytest.raises(InvalidError, match=r"^priority: must be .{0,60}$"):
        parse_priority(wrong)


def test_a_waiting_task_gains_one_level_with_each_step() -> None:
    assert effective(HIGH, 2 * AGING_STEP) == HIGH + 2


def test_a_wait_that_a_skewed_clock_makes_negative_counts_as_none() -> None:
    assert effective(HIGH, -HOUR) == HIGH


def test_among_fresh_tasks_the_more_urgent_goes_first() -> None:
    assert serving_order({}) == sorted(LEVELS, reverse=True)


def test_a_normal_task_that_has_caught_up_with_a_fresh_urgent_one_still_lets_it_pass() -> None:
    order = serving_order({NORMAL: 9 * AGING_STEP, URGENT: timedelta(0)})

    assert order[:2] == [URGENT, NORMAL]


@PROPERTY
@given(waits)
def test_every_level_is_served_exactly_once_a_round(waited: dict[int, timedelta]) -> None:
    assert sorted(serving_order(waited)) == list(LEVELS)


@PROPERTY
@given(levels, levels, st.timedeltas(timedelta(0), HOUR))
def test_of_two_equally_old_tasks_the_more_urgent_goes_first(one: int, other: int, age: timedelta) -> None:
    order = serving_order({one: age, other: age})

    assert (order.index(one) <= order.index(other)) == (one >= other)


def test_a_head_waits_from_when_it_was_first_seen_not_from_its_creation() -> None:
    delayed = TaskId(first_id_at(NOW - 1_000 * AGING_STEP))  # created long ago, due and queued now

    seen = follow_heads({}, {NORMAL: delayed}, now=7.0)

    assert seen == {NORMAL: (delayed, 7.0)}
    assert serving_order({level: timedelta(seconds=7.0 - since) for level, (_, since) in seen.items()})[0] == URGENT


def test_a_head_that_stays_grows_older_and_one_that_changes_begins_anew() -> None:
    known = {NORMAL: (TaskId(1), 7.0), HIGH: (TaskId(2), 7.0), URGENT: (TaskId(3), 7.0)}

    seen = follow_heads(known, {NORMAL: TaskId(1), HIGH: TaskId(9)}, now=8.0)

    assert seen == {NORMAL: (TaskId(1), 7.0), HIGH: (TaskId(9), 8.0)}


def rounds_until_served(level: int, *, flood: int, capacity: int, most: int) -> int | None:
    """Serve `capacity` tasks a second while `flood` urgent ones arrive, until the one of this level has its turn."""
    queues: dict[int, deque[datetime]] = {known: deque() for known in LEVELS}
    queues[level].append(NOW)
    for second in range(most):
        now = NOW + second * SECOND
        queues[URGENT].extend([now] * flood)
        room = capacity
        for served in serving_order({known: now - queue[0] for known, queue in queues.items() if queue}):
            while room and queues[served]:
                queues[served].popleft()
                room -= 1
        if not queues[level]:
            return second
    return None


@pytest.mark.parametrize("level", [NORMAL, HIGH, URGENT - 1])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_a_flood_of_urgent_tasks_delays_a_lesser_one_but_never_starves_it(level: int, factor: int) -> None:
    # The flood's oldest has waited (1 - 1/factor) of the time: the lesser task gains a level on it in `factor` steps.
    bound = (URGENT - level) * AGING_STEP * factor

    served_after = rounds_until_served(level, flood=2 * factor, capacity=2, most=1_000)

    assert served_after is not None
    assert served_after * SECOND <= bound + (factor + 1) * SECOND  # the flood's head ages by whole seconds


def test_aging_does_not_let_a_lesser_task_overtake_before_its_time() -> None:
    served_after = rounds_until_served(NORMAL, flood=2, capacity=2, most=1_000)

    assert served_after is not None
    assert served_after * SECOND >= (URGENT - NORMAL) * AGING_STEP
