"""Reading a call: its metadata, its one message, and what of it is path, query and body of the operation."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc.aio
from google.protobuf.message import DecodeError

from rota.domain.checks import check_text
from rota.domain.errors import InvalidError
from rota.interfaces.grpc import convert
from rota.interfaces.grpc.methods import Method
from rota.interfaces.http.body import BODY_TIMEOUT, to_struct
from rota.interfaces.http.endpoint import LONGEST_EVENT_ID
from rota.interfaces.http.gate import MOST_HEADER_BYTES, MOST_HEADERS
from rota.interfaces.operations.errors import HeadersTooLargeError, SlowRequestError, TooLargeError
from rota.interfaces.operations.operation import Operation

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Parsed:
    path: dict[str, str]
    query: Any
    body: Any
    after: str | None  # where a stream goes on


def scan(context: Context) -> dict[str, list[str]]:
    """The metadata by name, once it is known that it is not too large."""
    found: dict[str, list[str]] = {}
    given = tuple(context.invocation_metadata() or ())
    if len(given) > MOST_HEADERS or sum(len(key) + len(value) for key, value in given) > MOST_HEADER_BYTES:
        raise HeadersTooLargeError(f"more than {MOST_HEADER_BYTES} bytes or {MOST_HEADERS} entries of metadata")
    for key, value in given:
        if isinstance(value, str):
            found.setdefault(key, []).append(value)
    return found


def find_one(found: dict[str, list[str]], name: str, *, longest: int) -> str | None:
    values: Sequence[str] = found.get(name, ())
    if len(values) > 1:
        raise InvalidError(name, "is given twice; give it once")
    return check_text(name, values[0], longest=longest) if values else None


def address_of(context: Context) -> str:
    """Where the call came from: `ipv4:127.0.0.1:4711` is `127.0.0.1`."""
    return context.peer().partition(":")[2].rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")


async def receive(context: Context) -> bytes:
    """The one message of the call."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT.total_seconds()):
            raw = await context.read()
    except TimeoutError as exc:
        problem = f"the message did not arrive within {BODY_TIMEOUT.total_seconds():g} seconds; send it again"
        raise SlowRequestError(problem) from exc
    if not isinstance(raw, bytes):
        raise InvalidError("body", "is missing: the call ended without a message")
    return raw


def _place(after: str | None, operation: Operation) -> str | None:
    """Where a stream is to go on."""
    if after is None or operation.places is None:
        return None
    return operation.places.check("after", check_text("after", after, longest=LONGEST_EVENT_ID))


def parse(raw: bytes, method: Method) -> Parsed:
    """What the message asks for, checked as over HTTP."""
    operation = method.operation
    most = operation.most_marks
    if len(raw) > most and convert.count_items(raw, most, kind=method.request.DESCRIPTOR) > most:
        raise TooLargeError(f"the message has more than {most} fields; send less, or split it")
    try:
        message = method.request.FromString(raw)
    except DecodeError as exc:
        raise InvalidError("body", f"is no {method.request.DESCRIPTOR.full_name}") from exc
    values = convert.Reader(operation.most_marks).read(message)
    path = {name: str(values.pop(name, "")) for name in operation.path_names}
    after = values.pop("after", None) if method.is_stream else None
    kind = operation.query
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)  # `from` is no name for a field
    query = {encoded: values.pop(name) for name, encoded in names if name in values}
    return Parsed(
        path=path,
        query=to_struct(query, kind),
        body=None if operation.body is None else to_struct(values, operation.body),
        after=_place(after, operation),
    )
