from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.checks import MAX_DURATION
from rota.domain.durations import format_duration, parse_duration
from rota.domain.errors import InvalidError
from tests.support.properties import BROAD_PROPERTY


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("100ms", 0.1),
        ("10s", 10),
        ("1.5s", 1.5),
        ("5m", 300),
        ("1h30m", 5400),
        (" 1h 30m ", 5400),
        ("2 d", 172_800),
        ("7us", 0.000007),
        ("0s", 0),
        (30, 30),
        (0.25, 0.25),
        (timedelta(minutes=2), 120),
    ],
)
def test_durations_are_read_as_people_write_them(written: Any, seconds: float) -> None:
    assert parse_duration("timeout", written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("", "is empty"),
        ("10", "a number without a unit"),
        ("1h30", "a number without a unit"),
        ("10 parsecs", "'parsecs' in '10 parsecs' is no unit"),
        ("soon", "'soon' is not a duration"),
        ("-5s", "must not be negative, as '-5s' is"),
        ("1.s", "a number without a unit"),
        ("30m1h", "the largest first"),
        ("1s1s", "each unit once"),
        ("9" * 15 + "d", "longer than any duration"),
        ("s" * 65, "65 characters"),
        ("400d", "34560000 seconds is not between 0 and 366 days"),
        (float("nan"), "nan is not a duration"),
        (float("inf"), "inf is not a duration"),
        (1e300, "longer than any duration"),
        (-1, "-1 seconds is not between"),
        (timedelta(seconds=-1), "-1 seconds is not between"),
        (True, "must be a duration, not bool"),
        (None, "must be a duration, not NoneType"),
    ],
)
def test_an_error_says_which_field_and_what_is_wrong(written: Any, problem: str) -> None:
    with pytest.raises(InvalidError, match=r"^worker\.lease: ") as caught:
        parse_duration("worker.lease", written)

    assert problem in caught.value.problem


@BROAD_PROPERTY
@given(st.timedeltas(timedelta(0), MAX_DURATION))
def test_what_is_written_is_read_back_the_same(duration: timedelta) -> None:
    assert parse_duration("any", format_duration(duration)) == duration


def test_a_duration_is_written_in_whole_units() -> None:
    assert format_duration(timedelta(seconds=5400)) == "1h30m"
    assert format_duration(timedelta(milliseconds=1500)) == "1s500ms"
    assert format_duration(timedelta(0)) == "0s"


def test_a_negative_duration_cannot_be_written() -> None:
    with pytest.raises(InvalidError, match="less than nothing"):
        format_duration(timedelta(seconds=-1))
