import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.checks import (
    MAX_DEPTH,
    MAX_DURATION,
    MAX_METADATA_KEYS,
    MAX_PAYLOAD_BYTES,
    check_duration,
    check_instant,
    check_json,
    check_metadata,
    check_name,
    check_number,
    check_text,
    check_zone,
    to_json,
)
from rota.domain.errors import InvalidError
from tests.support.builders import SECOND
from tests.support.properties import BROAD_PROPERTY, PROPERTY

storable_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | storable_text
    | st.text("\\u0", max_size=12)  # what NUL looks like once it is escaped, and what only looks so
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(storable_text, inner, max_size=4),
    max_leaves=20,
)
UNSTORABLE = [
    float("nan"),
    float("inf"),
    -float("inf"),
    "\x00",
    "a\\\x00",
    "\ud800",
    "\udfff",
    b"bytes",
    {1},
    Decimal(1),
]


def nested(depth: int, *, core: Any) -> Any:
    value = core
    for level in range(depth):
        value = [value] if level % 2 else {"inner": value}
    return value


@BROAD_PROPERTY
@given(json_values)
def test_any_json_value_comes_back_as_it_was(value: Any) -> None:
    assert json.loads(to_json("payload", value)) == value


@PROPERTY
@given(st.dictionaries(storable_text, scalars, max_size=4))
def test_values_by_name_are_spelled_alone_as_among_others(value: Any) -> None:
    assert to_json("payload", [value]) == f"[{to_json('payload', value)}]"


@PROPERTY
@given(st.sampled_from(UNSTORABLE), st.integers(0, MAX_DEPTH), json_values)
def test_what_a_store_cannot_hold_is_found_wherever_it_hides(bad: Any, depth: int, beside: Any) -> None:
    with pytest.raises(InvalidError) as refusal:
        to_json("payload", nested(depth, core=bad))
    with pytest.raises(InvalidError):
        to_json("payload", [beside, bad, beside])

    assert refusal.value.field.startswith("payload")


@pytest.mark.parametrize("key", ["\x00", "\ud800", 1, 1.5, None, True, ("a", "b")])
def test_a_key_that_is_no_storable_text_is_refused_rather_than_changed(key: Any) -> None:
    with pytest.raises(InvalidError, match=r"^payload: "):
        to_json("payload", {"fine": [{key: 1}]})


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", "C:\\u0000.txt"])
def test_text_that_merely_spells_an_escaped_nul_is_fine(text: str) -> None:
    assert json.loads(to_json("payload", {text: text})) == {text: text}


@pytest.mark.parametrize("core", [7, [], {}], ids=repr)
def test_64_levels_are_fine_and_65_are_too_deep(core: Any) -> None:
    levels = MAX_DEPTH if core == 7 else MAX_DEPTH - 1

    assert json.loads(to_json("payload", nested(levels, core=core))) == nested(levels, core=core)
    with pytest.raises(InvalidError, match="payload: is nested deeper than 64 levels"):
        to_json("payload", nested(levels + 1, core=core))


def test_a_value_that_contains_itself_is_too_deep() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(InvalidError, match="nested deeper"):
        to_json("payload", endless)


def test_ten_thousand_levels_are_refused_without_recursion() -> None:
    with pytest.raises(InvalidError, match="nested deeper"):
        to_json("payload", nested(10_000, core=7))


@pytest.mark.parametrize("letter", ["x", "é", "表"])
def test_256_kib_are_fine_and_one_byte_more_is_not(letter: str) -> None:
    width = len(letter.encode())
    quotes = 2
    longest = letter * ((MAX_PAYLOAD_BYTES - quotes) // width) + "x" * ((MAX_PAYLOAD_BYTES - quotes) % width)

    assert len(to_json("payload", longest).encode()) == MAX_PAYLOAD_BYTES
    with pytest.raises(InvalidError, match="payload: is 262145 bytes of JSON, at most 262144 are allowed"):
        to_json("payload", longest + "x")


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 10_000, 100_000])
def test_json_text_nested_too_deep_is_refused_by_name(levels: int) -> None:
    with pytest.raises(InvalidError, match="payload: is nested deeper than 64 levels"):
        check_json("payload", "[" * levels + "]" * levels)


@pytest.mark.parametrize("text", ['"\x00"', '"\\u0000"', '"\ud800"', '"\\ud800"', "NaN", "{", "", 7, "1" * 5000])
def test_text_that_is_no_json_for_every_store_is_refused(text: object) -> None:
    with pytest.raises(InvalidError, match=r"^payload: "):
        check_json("payload", text)


def test_the_size_of_json_text_is_that_of_its_bytes_with_every_space() -> None:
    text = '"' + "表" * 2 + '"' + " " * 2  # 6 bytes of characters, 2 of quotes, 2 of spaces

    assert check_json("payload", text, most_bytes=10) == text
    with pytest.raises(InvalidError, match="payload: is 10 bytes of JSON, at most 9 are allowed"):
        check_json("payload", text, most_bytes=9)


def test_a_large_whole_number_keeps_every_digit() -> None:
    assert to_json("payload", 10**1000) == "1" + "0" * 1000


def test_a_number_too_large_to_be_written_is_refused_by_name() -> None:
    with pytest.raises(InvalidError, match=r"^payload: cannot be written as JSON"):
        to_json("payload", 10**5000)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (7, "must be text, not int"),
        ("nul \x00", "must not contain a NUL character"),
        ("ab\ud800", "is not valid Unicode (lone surrogate at 2)"),
        ("x" * 11, "has 11 characters, at most 10 are allowed"),
    ],
)
def test_text_that_some_store_cannot_hold_is_refused(value: object, problem: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        check_text("name", value, longest=10)

    assert (refusal.value.field, refusal.value.problem) == ("name", problem)


@pytest.mark.parametrize("text", ["", "x" * 10, "表" * 10, "line\nbreak"])
def test_other_text_is_kept_as_it_is(text: str) -> None:
    assert check_text("name", text, longest=10) == text


@pytest.mark.parametrize("name", ["a", "9", "billing.send-email_v2", "X" * 200])
def test_a_name_has_letters_digits_and_a_few_signs(name: str) -> None:
    assert check_name("type", name) == name


@pytest.mark.parametrize("name", ["", "two words", "-a", "a/b", "a:pause", "é", "a\n", "a*", "x" * 201, None])
def test_what_does_not_fit_into_keys_and_routes_is_no_name(name: object) -> None:
    with pytest.raises(InvalidError, match=r"^type: "):
        check_name("type", name)


@pytest.mark.parametrize("duration", [SECOND, MAX_DURATION])
def test_the_limits_of_a_duration_belong_to_it(duration: timedelta) -> None:
    assert check_duration("timeout_seconds", duration, least=SECOND) == duration


@pytest.mark.parametrize("duration", [SECOND / 2, -SECOND, MAX_DURATION + SECOND])
def test_a_duration_beyond_its_limits_is_refused(duration: timedelta) -> None:
    with pytest.raises(InvalidError, match=r"^timeout_seconds: "):
        check_duration("timeout_seconds", duration, least=SECOND)


@pytest.mark.parametrize("number", [-1, 10, True, 1.0, "5", None, pytest.param(10**5000, id="huge")])
def test_what_is_no_whole_number_in_the_range_is_refused(number: object) -> None:
    with pytest.raises(InvalidError, match="priority: must be a whole number from 0 to 9"):
        check_number("priority", number, least=0, most=9)


@pytest.mark.parametrize("moment", [datetime(2000, 1, 1, tzinfo=UTC), datetime(2099, 12, 31, 23, 59, tzinfo=UTC)])
def test_an_instant_lies_in_this_century(moment: datetime) -> None:
    assert check_instant("scheduled_at", moment) == moment


@pytest.mark.parametrize(
    "moment",
    [datetime(2026, 1, 1), datetime(1999, 12, 31, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)],  # noqa: DTZ001 the case
)
def test_a_time_without_zone_or_out_of_range_is_refused(moment: datetime) -> None:
    with pytest.raises(InvalidError, match=r"^scheduled_at: "):
        check_instant("scheduled_at", moment)


@pytest.mark.parametrize("name", ["UTC", "Asia/Shanghai", "America/Argentina/Buenos_Aires", "Etc/GMT+5"])
def test_an_iana_zone_is_known(name: str) -> None:
    assert check_zone("schedule.zone", name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../etc/passwd",
        "/etc/passwd",
        "Asia",
        "Asia/",
        "Mars/Base",
        "\x00",
        "UTC\n",
        "zone.tab",
        "x" * 65,
        8,
    ],
)
def test_an_odd_zone_name_is_refused_and_opens_no_file(name: object) -> None:
    with pytest.raises(InvalidError, match=r"^schedule.zone: "):
        check_zone("schedule.zone", name)


@pytest.mark.parametrize("name", ["localtime", "posixrules", "right/UTC", "posix/Asia/Shanghai"])
def test_a_zone_that_means_something_else_on_each_machine_is_refused(name: str) -> None:
    with pytest.raises(InvalidError, match="is not an IANA time zone"):
        check_zone("schedule.zone", name)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Asia/Shangai", "Asia/Shanghai"),
        ("asia/shanghai", "Asia/Shanghai"),
        ("Asia/Beijing", "Asia/Shanghai"),
        ("CST", "Asia/Shanghai or America/Chicago"),
        ("Berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
    ],
)
def test_the_zone_that_may_be_meant_is_named(given: str, meant: str) -> None:
    with pytest.raises(InvalidError, match=rf"is not an IANA time zone; did you mean {meant}\?$"):
        check_zone("schedule.zone", given)


def test_a_zone_that_is_like_none_is_answered_with_an_example() -> None:
    with pytest.raises(InvalidError, match=r"is not an IANA time zone such as Asia/Shanghai$"):
        check_zone("schedule.zone", "Mars/Base")


def test_metadata_are_short_texts_under_short_names() -> None:
    metadata = {"order.id": "7", "customer": "Müller", "empty": ""}

    assert check_metadata("metadata", metadata) == metadata


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({str(number): "" for number in range(MAX_METADATA_KEYS + 1)}, "metadata"),
        ({"two words": ""}, "metadata"),
        (None, "metadata"),
        ([("order", "7")], "metadata"),
        ({7: ""}, "metadata"),
        ({"x" * 65: ""}, "metadata"),
        ({"order": 7}, "metadata.order"),
        ({"order": "nul \x00"}, "metadata.order"),
        ({"order": "x" * 501}, "metadata.order"),
    ],
)
def test_other_metadata_are_refused_and_the_key_is_named(metadata: Any, field: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        check_metadata("metadata", metadata)

    assert refusal.value.field == field


def test_the_years_are_counted_in_utc() -> None:
    west = timezone(timedelta(hours=-12))
    with pytest.raises(InvalidError, match="2099"):
        check_instant("scheduled_at", datetime(2099, 12, 31, 23, 59, tzinfo=west))


@pytest.mark.parametrize("wrong", [5, "5m", None])
def test_a_duration_is_not_a_number_or_a_text(wrong: Any) -> None:
    with pytest.raises(InvalidError, match="must be a duration"):
        check_duration("delay_seconds", wrong)


@pytest.mark.parametrize("wrong", ["2026-01-01T00:00:00Z", 5])
def test_a_time_is_not_a_text_or_a_number(wrong: Any) -> None:
    with pytest.raises(InvalidError, match="must be a time"):
        check_instant("scheduled_at", wrong)


def test_a_negative_delay_is_told_in_seconds() -> None:
    with pytest.raises(InvalidError, match="-1 seconds is not between 0 and"):
        check_duration("delay_seconds", timedelta(seconds=-1))
