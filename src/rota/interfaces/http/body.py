"""Reading the body of a request: bounded before it costs memory, and every mistake named with its field.

The order: the declared length, then the bytes as they come, then the number of values and their nesting, and only then
the parser. JSON says nothing about a key that is given twice, and numbers that are none, so readers differ about them;
here they are errors.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive, Scope

from rota.domain.checks import MAX_DEPTH
from rota.domain.errors import InvalidError
from rota.domain.strict_json import MOST_DIGITS, read_strictly
from rota.interfaces.operations.errors import MediaTypeError, SlowRequestError, TooLargeError
from rota.interfaces.operations.operation import MOST_BODY_MARKS
from rota.wire.mistakes import explain
from rota.wire.task import CreateTask, CreateTasks

T = TypeVar("T")

BODY_TIMEOUT = timedelta(seconds=15)
DEEPEST = MAX_DEPTH + 4  # a payload of the full depth, inside the request that carries it
MOST_ERRORS = 100
_TEXTS = re.compile(rb'"[^"]*+(?:"|\Z)')  # one that does not end reaches to the end of the body
_ODD_ESCAPE = re.compile(rb"\\u(?:[dD][89a-fA-F]|00(?:00|3[aA]))")  # half of a pair, a NUL, or a colon
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * (MOST_DIGITS + 1)
_NEITHER = bytes(set(range(256)) - set(b'"[]{},'))
_SQUARE = bytes.maketrans(b"{}", b"[]")
_OPENING = ord("[")


async def read_body(scope: Scope, receive: Receive, *, most: int, count: Callable[[int], None]) -> bytes:
    """The bytes of the body; `TooLargeError` as soon as it is known that there are too many.

    `count` hears of each piece as it comes, and raises when there is no room for it.
    """
    declared = find_header(scope, b"content-length") or ""
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(BODY_TIMEOUT.total_seconds()):
            return await _gather(receive, most=most, count=count)
    except TimeoutError as exc:
        problem = f"the body did not arrive within {BODY_TIMEOUT.total_seconds():g} seconds; send it again"
        raise SlowRequestError(problem) from exc


async def _gather(receive: Receive, *, most: int, count: Callable[[int], None]) -> bytes:
    chunks = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise SlowRequestError("the connection ended before the body did")
        piece = message.get("body", b"")
        count(len(piece))
        chunks += piece
        if len(chunks) > most:
            raise _too_large(most)
        if not message.get("more_body"):
            return bytes(chunks)


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(f"the body has more than {most} bytes; send less, or split it into several requests")


def find_header(scope: Scope, name: bytes) -> str | None:
    """The first header of this name, which is in lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None


def check_media_type(scope: Scope) -> None:
    """Only JSON is read. A body without a type is taken for it; a form is what another site can make a browser send."""
    named = find_header(scope, b"content-type")
    if named is None or named == "application/json":
        return
    given = named.partition(";")[0].strip().lower()
    if given != "application/json":
        raise MediaTypeError(f"the body is {given[:100]!r}; send application/json")


def parse_body(raw: bytes, wanted: type[T], *, most_marks: int = MOST_BODY_MARKS) -> T:
    """The request that the bytes spell, or `InvalidError`."""
    return to_struct(parse_json(raw, most_marks=most_marks), wanted)


def parse_json(raw: bytes, *, most_marks: int = MOST_BODY_MARKS) -> Any:
    """Any JSON value, strictly: no doubled keys, no NaN, no text that a store could not hold."""
    check_structure(raw, most_marks=most_marks)
    found = _parse_plain(raw)
    return _parse_carefully(raw) if found is None else found[0]


def _parse_plain(raw: bytes) -> tuple[Any] | None:
    """What a body spells that has certainly nothing odd in it, in a tenth of the time; None where there may be."""
    if (b"\\u" in raw and _ODD_ESCAPE.search(raw)) or (len(raw) > MOST_DIGITS and _LONG in raw.translate(_ZEROS)):
        return None
    try:
        value = msgspec.json.decode(raw)
        again = msgspec.json.encode(value)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):  # which it is, the other one says
        return None
    # A key that was given twice is in the value once: its colon is missing, and nothing has added one.
    return (value,) if raw.count(b":") == again.count(b":") else None


def _parse_carefully(raw: bytes) -> Any:
    try:
        return read_strictly(raw.decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise InvalidError("body", f"is not UTF-8 (at byte {exc.start})") from exc


def check_structure(raw: bytes, *, most_marks: int) -> None:
    """Refuse what has too many values or is nested too deeply, without building any of it.

    A value costs fifty times the bytes that spell it, so that the number of bytes bounds neither time nor memory.
    """
    openings = raw.count(b"[") + raw.count(b"{")
    if openings <= DEEPEST and openings + raw.count(b",") <= most_marks:
        return
    marks = _drop_texts(raw, most_marks=most_marks)
    if marks.count(b"[") + marks.count(b"{") + marks.count(b",") > most_marks:
        raise _too_many(most_marks)
    _check_depth(marks.translate(_SQUARE, b","))


def _check_depth(brackets: bytes) -> None:
    left = brackets
    for _ in range(DEEPEST):
        left = left.replace(b"[]", b"")  # the innermost level; most bodies have few
        if not left:
            return
    depth = 0
    for sign in brackets:
        depth += 1 if sign == _OPENING else -1
        if depth > DEEPEST:
            raise InvalidError("body", f"is nested deeper than {MAX_DEPTH} levels")


def count_marks(raw: bytes, *, most_marks: int) -> int:
    """How many values it has: its opening brackets and commas outside of texts."""
    marks = _drop_texts(raw, most_marks=most_marks)
    return marks.count(b"[") + marks.count(b"{") + marks.count(b",")


def _drop_texts(raw: bytes, *, most_marks: int) -> bytes:
    """The brackets and commas that are not in a text. Each step is one pass over the bytes."""
    if b"\\" in raw:  # without what is escaped, every quote begins or ends a text
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    raw = raw.translate(None, _NEITHER)
    if raw.count(b'"') > 4 * (most_marks + 1):  # two texts to a mark, as key and value: with more it is no JSON
        raise _too_many(most_marks)
    return _TEXTS.sub(b"", raw)


def _too_many(most_marks: int) -> TooLargeError:
    problem = f"the body has more than {most_marks} brackets and commas (those in texts do not count)"
    return TooLargeError(f"{problem}; send less, or split it into several requests")


def to_struct(value: Any, wanted: type[T], *, strict: bool = True) -> T:
    """Values as they were parsed, in their places and of their types."""
    try:
        return msgspec.convert(value, wanted, strict=strict)
    except (msgspec.ValidationError, OverflowError) as exc:
        items = value.get("tasks") if wanted is CreateTasks and isinstance(value, dict) else None
        found = _list_bad_items(items) if isinstance(items, list) else iter(())
        errors = list(islice(found, MOST_ERRORS)) or list(
            islice(_list_mistakes(value, wanted, strict=strict), MOST_ERRORS)
        )
        raise InvalidError.of(errors) from exc


def _list_mistakes(value: Any, wanted: type, *, strict: bool = True) -> Iterator[InvalidError]:
    """Every field that is wrong, where the parser names the first alone: what is wrong is left out of the next try."""
    left = dict(value) if isinstance(value, dict) else value
    named: set[str] = set()
    while True:
        try:
            msgspec.convert(left, wanted, strict=strict)
        except (msgspec.ValidationError, OverflowError) as exc:
            error = explain(exc, wanted, given=left)
            name = re.split(r"[.\[]", error.field)[0]
            if name in named:  # it is missing now
                return
            yield error
            named.add(name)
            if not isinstance(left, dict) or left.pop(name, named) is named:
                return
        else:
            return


def _list_bad_items(items: list[Any]) -> Iterator[InvalidError]:
    """The same for the items of a batch."""
    for place, item in enumerate(items):
        for error in _list_mistakes(item, CreateTask):
            inner = "" if error.field == "body" else f".{error.field}"
            yield InvalidError(f"tasks[{place}]{inner}", error.problem)
