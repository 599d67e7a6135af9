"""What a body may be, and what is said of one that may not."""

import json
from typing import Any

import pytest

from rota.domain.errors import InvalidError
from rota.interfaces.http.body import DEEPEST, MOST_ERRORS, parse_body, parse_json
from rota.interfaces.operations.errors import TooLargeError
from rota.interfaces.operations.operation import MOST_BODY_MARKS
from rota.wire.task import CreateTask, CreateTasks, PatchTask


def test_a_sound_body_is_read() -> None:
    body = parse_body(b'{"type": "email", "payload": {"to": ["a", {"b": null}]}, "delay_seconds": 3}', CreateTask)
    assert (body.type, body.payload, body.delay_seconds) == ("email", {"to": ["a", {"b": None}]}, 3.0)


@pytest.mark.parametrize(
    ("raw", "field", "problem"),
    [
        (b"", "body", "is not JSON"),
        (b"{", "body", "is not JSON"),
        (b'{"type": "a"} {}', "body", "is not JSON"),
        (b"\xff\xfe", "body", "is not UTF-8"),
        (b"[]", "body", "must be an object, not a list"),
        (b"null", "body", "must be an object, not null"),
        (b"{}", "type", "is missing"),
        (b'{"type": 5}', "type", "must be text, not a whole number"),
        (b'{"type": "a", "prioritty": 5}', "prioritty", "is not known"),
        (b'{"type": "a", "type": "b"}', "type", "is given twice"),
        (b'{"type": "a", "payload": {"b": {"c": 1, "c": 1}}}', "payload.b.c", "is given twice"),
        (b'{"type": "a", "payload": {"b": "\\u003a", "b": ":"}}', "payload.b", "is given twice"),
        (b'{"type": "a", "payload": {"b": 1, "\\u0062": 1}}', "payload.b", "is given twice"),
        (b'{"type": "a", "payload": NaN}', "payload", "is NaN"),
        (b'{"type": "a", "payload": [{"b": NaN}]}', "payload[0].b", "is NaN"),
        (b'{"type": "a", "payload": {"b": 1e999}}', "payload.b", "too large"),
        (b'{"type": "a", "metadata": {"a": "b", "c": 1, "d": 2}}', "metadata.c", "must be text, not a whole number"),
        (b'{"type": "a", "payload": -Infinity}', "payload", "is infinite"),
        (b'{"type": "a\\u0000"}', "type", "NUL"),
        (b'{"type": "a", "payload": ["\\ud800"]}', "payload[0]", "lone surrogate"),
        (b'{"type": "a", "metadata": {"\\u0000": "b"}}', "metadata.\\x00", "NUL"),
        (b'{"type": "a", "priority": true}', "priority", "not true or false"),
        (b'{"type": "a", "retry": {"max": 3}}', "retry.max", "is not known"),
        (
            b'{"type": "a", "retry": {"strategy": "LINEAR"}}',
            "retry.strategy",
            "must be one of FIXED, EXPONENTIAL, not .LINEAR.",
        ),
        (b'{"type": "a", "scheduled_at": "tomorrow"}', "scheduled_at", "must be a time such as 2030"),
        (b'{"type": "a", "delay_seconds": ' + b"9" * 400 + b"}", "delay_seconds", "out of range"),
        (b'{"type": "a", "payload": ' + b"9" * 1001 + b"}", "body", "more than 1000 digits"),
        (b'{"type": "a", "priority": ' + b"9" * 5000 + b"}", "body", "is not JSON"),
    ],
)
def test_a_bad_body_is_refused_with_its_field(raw: bytes, field: str, problem: str) -> None:
    with pytest.raises(InvalidError, match=problem.replace("[", r"\[")) as caught:
        parse_body(raw, CreateTask)
    assert caught.value.field == field


def test_an_emoji_spelt_as_two_escapes_is_sound() -> None:
    assert parse_json(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    "value",
    [
        {"type": "a:b", "payload": {":": ["::", {"c": ":"}]}},
        [0, -0.0, 1e308, 5e-324, 2**63, -(2**63) - 1, 2**64, 10**400, 0.1, True, None],
        ["\x7f", "\\", '"', "\\u0000", "ü", "\N{GRINNING FACE}", "\u2028", "\x1f", "9" * 1001],
        {"a": {}, "b": [], "": "", "ä": [[], {}]},
    ],
)
@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_body_is_read_as_the_standard_library_reads_it(value: Any, is_ascii: bool) -> None:
    raw = json.dumps(value, ensure_ascii=is_ascii).encode()
    assert repr(parse_json(raw)) == repr(json.loads(raw))


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_what_is_nested_too_deeply_is_refused_before_it_is_parsed(opening: bytes) -> None:
    with pytest.raises(InvalidError, match="nested deeper than 64 levels"):
        parse_json(opening * 100_000)


def test_depth_counts_what_is_open_and_not_what_stands_in_text() -> None:
    parse_json(b"[" + b",".join([b"[]"] * 1000) + b"]")
    parse_json(json.dumps('[{"' * 1000 + "\\").encode())
    deepest: Any = "x"
    for _ in range(DEEPEST):
        deepest = [deepest]
    assert parse_json(json.dumps([deepest][0]).encode()) == deepest


def test_a_text_that_never_ends_takes_no_longer_than_its_length() -> None:
    with pytest.raises(InvalidError, match="is not JSON"):
        parse_json(b"[]" * 70 + b'"' + b'\\"' * 2_000_000)  # tried from every quote it would take hours


@pytest.mark.parametrize(
    "piece", [b"[],", b"{},", b"1,", b'"",', b'"\\\\",[],', b'"\\"",{},'], ids=["[]", "{}", "1", '""', "\\\\", '\\"']
)
def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(piece: bytes) -> None:
    number = MOST_BODY_MARKS // (piece.count(b",") + piece.count(b"[") + piece.count(b"{")) + 1
    with pytest.raises(TooLargeError, match="brackets and commas"):
        parse_json(piece * number)  # the parser would say that it is not JSON


def test_quotes_without_end_are_not_looked_at_one_by_one() -> None:
    with pytest.raises(TooLargeError):
        parse_json(b"[" * (DEEPEST + 1) + b'""' * (3 * MOST_BODY_MARKS))


@pytest.mark.parametrize("text", ["," * (MOST_BODY_MARKS + 1), '",[{\\' * MOST_BODY_MARKS, "[" * 1000 + "\\"])
def test_what_stands_in_a_text_counts_for_nothing(text: str) -> None:
    assert parse_json(json.dumps([text, [text]]).encode()) == [text, [text]]


def test_every_payload_that_a_task_may_have_has_room() -> None:
    most = b"[" + b"[]," * (256 * 1024 // 3 - 1) + b"[]]"
    assert len(parse_body(b'{"type": "a", "payload": ' + most + b"}", CreateTask).payload) == 256 * 1024 // 3


def test_every_bad_item_of_a_batch_is_named() -> None:
    raw = b'{"tasks": [{"type": "a"}, {"type": 1}, {}, 7, {"type": "a", "typo": 1}]}'
    with pytest.raises(InvalidError) as caught:
        parse_body(raw, CreateTasks)
    fields = [part.field for part in caught.value.parts]
    assert fields == ["tasks[1].type", "tasks[2].type", "tasks[3]", "tasks[4].typo"]


def test_every_bad_field_of_a_body_is_named() -> None:
    with pytest.raises(InvalidError) as caught:
        parse_body(b'{"name": 5, "delay": "-5s", "foo": 1, "retry": {"max_retries": "x"}}', CreateTask)
    assert sorted(part.field for part in caught.value.parts) == ["delay", "foo", "name", "retry.max_retries", "type"]


def test_a_batch_with_many_mistakes_names_the_first_hundred() -> None:
    with pytest.raises(InvalidError) as caught:
        parse_body(json.dumps({"tasks": [{}] * 5000}).encode(), CreateTasks)
    assert len(caught.value.parts) == MOST_ERRORS


def test_a_batch_that_is_no_list_is_told_so() -> None:
    with pytest.raises(InvalidError) as caught:
        parse_body(b'{"tasks": {}}', CreateTasks)
    assert caught.value.field == "tasks"


def test_a_field_of_its_own_is_named_apart_from_its_items() -> None:
    with pytest.raises(InvalidError) as caught:
        parse_body(b'{"tasks": [], "atomic": true}', CreateTasks)
    assert caught.value.field == "atomic"


def test_null_is_what_an_optional_field_may_be() -> None:
    assert parse_body(b'{"priority": null}', PatchTask).priority is None
