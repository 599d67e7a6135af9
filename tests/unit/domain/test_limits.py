from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.errors import InvalidError
from rota.domain.limits import TokenBucket
from tests.support.properties import BROAD_PROPERTY

rates = st.floats(0.001, 100_000)
bursts = st.floats(1, 100_000)
instants = st.floats(0, 10_000_000)


@BROAD_PROPERTY
@given(rates, bursts, st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 1_000)), max_size=20))
def test_no_window_grants_more_than_the_burst_and_its_share_of_the_rate(
    rate: float, burst: float, calls: list[tuple[float, int]]
) -> None:
    bucket = TokenBucket.full(rate=rate, burst=burst, now=100.0)
    clock = newest = 100.0
    history: list[tuple[float, int]] = []
    for step, wanted in calls:
        clock += step
        newest = max(newest, clock)  # time that went back and came again does not count twice
        bucket, granted = bucket.take(wanted, now=clock)
        assert 0 <= granted <= wanted
        history.append((newest, granted))

    for first, (begin, _) in enumerate(history):
        for last, (end, _) in enumerate(history[first:], first):
            granted = sum(count for _, count in history[first : last + 1])
            assert granted <= burst + rate * (end - begin) + 1e-6


def test_a_bucket_fills_up_to_its_burst_and_no_further() -> None:
    bucket, _ = TokenBucket.full(rate=10, burst=5, now=0.0).take(5, now=0.0)

    assert bucket.take(100, now=0.25)[1] == 2
    assert bucket.take(100, now=3_600.0)[1] == 5


def test_a_clock_that_went_back_adds_nothing_and_loses_nothing() -> None:
    empty, _ = TokenBucket.full(rate=1, burst=3, now=100.0).take(3, now=100.0)

    behind, granted = empty.take(1, now=50.0)

    assert granted == 0
    assert behind.take(3, now=102.0)[1] == 2


@BROAD_PROPERTY
@given(rates, bursts, instants, st.integers(1, 200_000), st.integers(0, 200_000))
def test_after_the_promised_wait_the_wanted_number_can_be_had(
    rate: float, burst: float, now: float, wanted: int, used: int
) -> None:
    bucket, _ = TokenBucket.full(rate=rate, burst=burst, now=now).take(used, now=now)

    slept = timedelta(seconds=bucket.wait_for(wanted, now=now)).total_seconds()  # as a clock does: to the microsecond

    assert bucket.take(wanted, now=now + slept)[1] == min(wanted, int(burst))


def test_what_was_taken_for_nothing_can_be_had_again_and_no_more_than_that() -> None:
    bucket, _ = TokenBucket.full(rate=1, burst=3, now=0.0).take(3, now=0.0)
    assert bucket.put_back(2).take(3, now=0.0)[1] == 2
    assert bucket.put_back(2).take(5, now=2.0)[1] == 3


def test_nobody_waits_for_what_is_there() -> None:
    assert TokenBucket.full(rate=1, burst=3, now=0.0).wait_for(3, now=0.0) == 0.0


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_must_be_a_positive_number(rate: float) -> None:
    with pytest.raises(InvalidError, match=r"^rate: "):
        TokenBucket.full(rate=rate, burst=1, now=0.0)


@pytest.mark.parametrize("burst", [0.0, 0.5, float("inf"), float("nan")])
def test_a_burst_must_let_at_least_one_through(burst: float) -> None:
    with pytest.raises(InvalidError, match=r"^burst: "):
        TokenBucket.full(rate=1, burst=burst, now=0.0)
