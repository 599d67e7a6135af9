"""One request as a value: what to send, whether it may be sent again, and how to read the answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from rota.domain.errors import InvalidError, UnavailableError
from rota.domain.strict_json import check_values

T = TypeVar("T")
PREFIX = "/api/v1"


class UnreadableError(UnavailableError):
    """What came is no answer of a Rota server."""

    code = "unreadable_answer"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answered."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request of the API. `may_repeat`: twice is as good as once, so that an unknown outcome may be tried again."""

    method: str
    path: str
    read: Callable[[bytes], T]
    query: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    may_repeat: bool = False
    waits: timedelta = timedelta(0)  # how long the server may take on purpose


def reading(path: str, kind: type[T], *, query: Sequence[tuple[str, str]] = ()) -> Call[T]:
    """A GET, whose answer is of this kind."""
    return Call(method="GET", path=path, read=as_kind(kind), query=query, may_repeat=True)


def writing(method: str, path: str, *, kind: type[T], body: Any = None, may_repeat: bool = False) -> Call[T]:
    """A request that changes something."""
    written = None if body is None else to_body(body)
    return Call(method=method, path=path, read=as_kind(kind), body=written, may_repeat=may_repeat)


def path_of(*parts: str, verb: str = "") -> str:
    """`/api/v1/tasks/7:cancel` from `("tasks", "7")` and `cancel`; what a name has of `/` and the like is escaped."""
    for part in parts:
        if not part or part in (".", ".."):
            raise InvalidError("id", f"{part!r} names nothing")
    path = "/".join(quote(part, safe="") for part in parts)
    return f"{PREFIX}/{path}:{verb}" if verb else f"{PREFIX}/{path}"


def to_body(body: Any, *, within: str = "") -> bytes:
    """JSON, or `InvalidError` for what JSON cannot hold. `within` is where it will stand in a larger body."""
    try:
        written = msgspec.json.encode(body)
        if b"null" in written:  # which is also what becomes of NaN
            check_values(msgspec.to_builtins(body), within=within)
    except UnicodeEncodeError:
        check_values(msgspec.to_builtins(body), within=within)
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise InvalidError(within or "body", f"cannot be written as JSON: {exc}") from exc
    return written


def as_kind(kind: type[T]) -> Callable[[bytes], T]:
    """A reader of JSON of this kind."""
    return lambda body: decode(body, kind)


def decode(body: bytes, kind: type[T]) -> T:
    """The answer, or `UnreadableError` when it is not what Rota would say: something else may listen there."""
    if kind is type(None):
        return None
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise UnreadableError(f"the answer cannot be read as {kind.__name__} ({exc}); is this a Rota server?") from exc
