import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.errors import InvalidError
from rota.domain.ids import EPOCH, MAX_ID, NODE_SLOTS, SEQUENCE_BITS, first_id_at, issued_at, next_id, parse_id
from tests.support.builders import HOUR, NOW
from tests.support.properties import BROAD_PROPERTY, PROPERTY

MILLISECOND = timedelta(milliseconds=1)
slots = st.integers(0, NODE_SLOTS - 1)
moments = st.datetimes(datetime(2024, 1, 1), datetime(2093, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 made aware
clock_steps = st.timedeltas(-HOUR, HOUR) | st.timedeltas(timedelta(0), 2 * MILLISECOND)


def slot_of(some_id: int) -> int:
    return (some_id >> SEQUENCE_BITS) % NODE_SLOTS


def ids_of(slot: int, *, clock: Iterable[datetime], last: int = 0) -> list[int]:
    issued = []
    for now in clock:
        last = next_id(last, now=now, slot=slot)
        issued.append(last)
    return issued


@PROPERTY
@given(st.lists(slots, min_size=2, max_size=4, unique=True), st.lists(clock_steps, max_size=50), moments)
def test_ids_of_several_processes_grow_and_never_meet_whatever_the_clocks_do(
    several: list[int], steps: list[timedelta], start: datetime
) -> None:
    clock = [start + sum(steps[:count], timedelta(0)) for count in range(len(steps) + 1)]

    by_slot = [ids_of(slot, clock=clock) for slot in several]

    assert all(ids == sorted(set(ids)) for ids in by_slot)
    assert len({some_id for ids in by_slot for some_id in ids}) == len(several) * len(clock)


@pytest.mark.parametrize("slot", [0, 5, NODE_SLOTS - 1])
def test_more_than_4096_ids_in_one_millisecond_borrow_from_the_next_and_keep_the_slot(slot: int) -> None:
    issued = ids_of(slot, clock=[NOW] * 10_000)

    assert issued == sorted(set(issued))
    assert {slot_of(some_id) for some_id in issued} == {slot}
    assert issued_at(issued[-1]) == NOW + 2 * MILLISECOND


@BROAD_PROPERTY
@given(st.integers(0, 2**62), moments, slots)
def test_the_next_id_is_the_smallest_of_its_slot_after_the_last_of_any_slot(
    last: int, now: datetime, slot: int
) -> None:
    found = next_id(last, now=now, slot=slot)

    assert found > last
    assert slot_of(found) == slot
    assert issued_at(found) - max(issued_at(last), now) <= MILLISECOND


def test_a_clock_before_2024_still_gives_every_slot_ids_of_its_own() -> None:
    unset_clock = datetime(1970, 1, 1, tzinfo=UTC)

    assert {slot_of(some_id) for some_id in ids_of(5, clock=[unset_clock] * 5_000)} == {5}


@BROAD_PROPERTY
@given(moments, slots)
def test_an_id_tells_when_it_was_issued(moment: datetime, slot: int) -> None:
    some_id = next_id(0, now=moment, slot=slot)

    assert timedelta(0) <= moment - issued_at(some_id) < MILLISECOND
    assert first_id_at(moment) <= some_id < first_id_at(moment + MILLISECOND)


@BROAD_PROPERTY
@given(moments)
def test_the_first_id_of_a_moment_was_issued_in_its_millisecond(moment: datetime) -> None:
    assert issued_at(first_id_at(moment)) == moment - timedelta(microseconds=moment.microsecond % 1000)


def test_a_filter_by_time_works_outside_the_years_that_ids_can_express() -> None:
    assert first_id_at(EPOCH - HOUR) == 0
    assert first_id_at(datetime(2999, 1, 1, tzinfo=UTC)) == MAX_ID


@given(st.integers(1, MAX_ID))
def test_an_id_survives_the_wire(some_id: int) -> None:
    assert parse_id("id", str(some_id)) == some_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "+1",
        "007",
        " 7",
        "7 ",
        "7\n",
        "1_000",
        "1.0",
        "0x7",
        "²",
        "٣",
        "\x00",
        str(MAX_ID + 1),
        "9" * 5000,
    ],
)
def test_what_is_no_id_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidError, match=re.escape("task_id: must be a decimal id")):
        parse_id("task_id", text)
