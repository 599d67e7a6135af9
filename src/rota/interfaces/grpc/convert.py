"""From messages to the values that the operations read, and from their answers to messages.

A field has the name that it has in JSON. One that ends in `_json` holds the JSON text of what has the name without it.
What is not set in a message is left out, and so gets the same default as over HTTP.
"""

from datetime import UTC
from functools import cache
from typing import Any

import msgspec
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.unknown_fields import UnknownFieldSet

from rota.domain.errors import InvalidError
from rota.domain.strict_json import check_values
from rota.interfaces.http.body import count_marks, parse_json
from rota.interfaces.operations.errors import TooLargeError
from rota.interfaces.operations.operation import Frame
from rota.wire.base import Answer

JSON = "_json"
STAMP = Timestamp.DESCRIPTOR.full_name
PACKED = "packed"
TEXTS = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})


class Reader:
    """Reads one request; all its JSON together has a bound."""

    def __init__(self, most_marks: int) -> None:
        self._left = most_marks

    def read(self, message: Message) -> dict[str, Any]:
        """What the message says, by the names of JSON. `InvalidError` names what cannot be meant."""
        values = self._read(message)
        check_values(values)
        return values

    def _read(self, message: Message) -> dict[str, Any]:
        if len(UnknownFieldSet(message)):
            number = UnknownFieldSet(message)[0].field_number
            name = message.DESCRIPTOR.name
            raise InvalidError(f"{name}[{number}]", "is a field that is not known; this server may be older than you")
        return dict(self._field(field, value) for field, value in message.ListFields())

    def _field(self, field: Any, value: Any) -> tuple[str, Any]:
        if field.name.endswith(JSON):
            name = field.name.removesuffix(JSON)
            return name, self._json(name, value)
        if is_map(field):
            return field.name, dict(value)
        if field.message_type is None:
            return field.name, list(value) if field.is_repeated else value
        if field.message_type.full_name == STAMP:
            return field.name, _read_time(field.name, value)
        return field.name, [self._read(item) for item in value] if field.is_repeated else self._read(value)

    def _json(self, name: str, text: str) -> Any:
        raw = text.encode()
        self._left -= count_marks(raw, most_marks=self._left)
        if self._left < 0:
            raise TooLargeError("the JSON of the request has too many brackets and commas; split it")
        try:
            return parse_json(raw)
        except InvalidError as exc:
            inner = "" if exc.field == "body" else exc.field if exc.field.startswith("[") else f".{exc.field}"
            raise InvalidError(name + inner, exc.problem) from exc


def is_map(field: Any) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def _read_time(name: str, value: Timestamp) -> Any:
    try:
        return value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError) as exc:
        raise InvalidError(name, "is no time of the years 1 to 9999") from exc


def write(answer: Answer, message: Message) -> None:
    """Fill the message with the answer, field by field."""
    for field in message.DESCRIPTOR.fields:
        value = getattr(answer, field.name.removesuffix(JSON))
        if value is not None:
            _write_field(field, value, message=message)


def _write_field(field: Any, value: Any, *, message: Message) -> None:
    if field.name.endswith(JSON):
        raw = bytes(value) if isinstance(value, msgspec.Raw) else msgspec.json.encode(value)
        setattr(message, field.name, raw.decode())
    elif is_map(field):
        getattr(message, field.name).update(value)
    elif field.message_type is None:
        if field.is_repeated:
            getattr(message, field.name).extend(value)
        else:
            setattr(message, field.name, value)
    elif field.message_type.full_name == STAMP:
        held = getattr(message, field.name)
        for moment in value if field.is_repeated else (value,):
            (held.add() if field.is_repeated else held).FromDatetime(moment)
    elif field.is_repeated:
        for item in value:
            write(item, getattr(message, field.name).add())
    else:
        inner = getattr(message, field.name)
        inner.SetInParent()
        write(value, inner)


def write_frame(frame: Frame, message: Message) -> None:
    """Fill a message of a stream: the field is named for the frame, or `event` for the many kinds of events."""
    known = message.DESCRIPTOR.fields_by_name
    inner = getattr(message, frame.event if frame.event in known else "event")
    inner.SetInParent()
    write(frame.body, inner)


def count_items(raw: bytes, most: int, *, kind: Any) -> int:
    """How many fields the message and those inside of it have, without building any; it stops beyond `most`.

    An empty message or text costs two bytes to send and a hundred to hold.
    """
    number, outer = 0, [(0, len(raw), kind)]  # outer: where to go on, and until where, after a message inside
    while outer and number <= most:
        place, end, kind = outer.pop()
        parts = _list_parts(kind)
        while place < end and number <= most:
            number += 1
            tag, place = _read_number(raw, place)
            if tag & 7 == 2:  # with its length
                size, place = _read_number(raw, place)
                inner = parts.get((tag & 0xFFFFFFFF) >> 3)
                if inner is None or inner == PACKED:
                    place += size
                    number += size if inner == PACKED else 0
                else:
                    outer += (place + size, end, kind), (place, min(place + size, end), inner)
                    break
            elif tag & 7 == 0:
                _, place = _read_number(raw, place)
            elif tag & 7 in (1, 5):
                place += 8 if tag & 7 == 1 else 4
            # the ends of a group have no bytes of their own; what is between them counts as well
    return number


@cache  # the messages of our own API
def _list_parts(kind: Any) -> dict[int, Any]:
    """The fields that may hold much: messages, to be looked into, and packed numbers. An entry of a map does not."""
    return {
        field.number: field.message_type or PACKED
        for field in kind.fields
        if not is_map(field) and (field.message_type is not None or (field.is_repeated and field.type not in TEXTS))
    }


def _read_number(raw: bytes, place: int) -> tuple[int, int]:
    if place < len(raw) and raw[place] < 0x80:  # most have one byte
        return raw[place], place + 1
    value = shift = 0
    while place < len(raw) and shift < 70:
        value |= (raw[place] & 0x7F) << shift
        place += 1
        if not raw[place - 1] & 0x80:
            break
        shift += 7
    return value, place
