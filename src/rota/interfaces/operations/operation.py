"""What an operation of the API is. Each is declared once: routes, checks, OpenAPI and the reference are made from it.

A handler is thin: it reads what was asked, calls one use case and renders the answer. Who asks, and whether they may,
is settled before it is called.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from rota.application.audit import Actor
from rota.application.services import Services
from rota.domain.access import Principal, Role
from rota.domain.checks import check_name
from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId, TenantId, WorkerId, parse_id
from rota.wire.base import Answer, Request

Q = TypeVar("Q")
B = TypeVar("B")

MIB = 1024**2
MOST_BODY_BYTES = MIB
MOST_BODY_MARKS = 200_000  # brackets and commas outside of texts: more than a payload of 256 KiB has room for


class NoQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Takes nothing in the query."""


class NoBody(Request):
    """A body with nothing in it, which may also be left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[Q, B]):
    """One request, read and allowed."""

    services: Services
    principal: Principal
    query: Q
    body: B
    address: str = ""
    path: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    wants_stream: bool = False
    last_event_id: str | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)  # set when the server stops

    @property
    def tenant_id(self) -> TenantId:
        return self.principal.tenant_id

    @property
    def actor(self) -> Actor:
        """Who changes something, for the record."""
        who = self.principal
        return Actor(tenant_id=who.tenant_id, name=who.name, address=self.address, token_id=who.token_id)

    @property
    def task_id(self) -> TaskId:
        return TaskId(parse_id("id", self.path["id"]))

    @property
    def worker_id(self) -> WorkerId:
        return WorkerId(parse_id("id", self.path["id"]))

    @property
    def task_type(self) -> str:
        return check_name("type", self.path["type"])

    def key_for(self, given: str | None) -> str | None:
        """The idempotency key, from the header or the body; two that differ cannot both be meant."""
        if self.idempotency_key is None or given in (None, self.idempotency_key):
            return self.idempotency_key if given is None else given
        raise InvalidError("idempotency_key", "differs from the header Idempotency-Key; give one of them, or the same")


@dataclass(frozen=True, slots=True)
class Reply:
    """What to answer."""

    status: int
    body: Answer | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None  # over HTTP in place of the body, as the operation's `text_type`


@dataclass(frozen=True, slots=True)
class Frame:
    """One message of a stream; with `id` as `Last-Event-ID` a client goes on after it."""

    event: str
    body: Answer
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on until one of both ends it."""

    frames: AsyncIterator[Frame]


@dataclass(frozen=True, slots=True)
class Places:
    """What the ids of a stream's messages look like, after which it can go on; `check` raises for any other text."""

    pattern: str
    check: Callable[[str, str], str]  # of the field and its value


Handler = Callable[[Call[Any, Any]], Awaitable[Reply | Stream]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that can be asked of the API."""

    name: str  # the operationId
    method: str
    path: str  # below /api/v1
    summary: str
    role: Role  # the least that is needed
    handler: Handler
    answers: Mapping[int, type[Answer] | None]
    query: type[Any] = NoQuery
    body: type[Request] | None = None
    needs_body: bool = True
    errors: tuple[str, ...] = ()  # beyond those that every operation can answer with
    most_bytes: int = MOST_BODY_BYTES
    most_marks: int = MOST_BODY_MARKS
    takes_key: bool = False  # heeds Idempotency-Key
    to_link: type[Answer] | None = None  # what the holder of an attempt's link is answered with instead
    places: Places | None = None  # if it answers `Accept: text/event-stream` with one
    frame: type[Answer] | None = None  # what the messages of its stream hold
    text_type: str | None = None  # the media type of its answer, if that may be a text

    @property
    def streams(self) -> bool:
        return self.places is not None

    @property
    def tag(self) -> str:
        """What it is about: the first word of its path."""
        return self.path.lstrip("/").partition("/")[0].partition(":")[0]

    @property
    def path_names(self) -> tuple[str, ...]:
        """The parts of the path that the caller fills in."""
        return tuple(part.partition("}")[0] for part in self.path.split("{")[1:])
