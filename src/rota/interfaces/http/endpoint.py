"""From a request to its operation and back."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.application import metrics
from rota.domain.access import Principal
from rota.domain.checks import check_text
from rota.domain.errors import RotaError
from rota.domain.submission import MAX_KEY_LENGTH
from rota.interfaces.http import sse
from rota.interfaces.http.body import check_media_type, find_header, parse_body, read_body
from rota.interfaces.http.gate import PRINCIPAL, PROOF
from rota.interfaces.http.query import parse_query
from rota.interfaces.http.state import ServerState
from rota.interfaces.operations.errors import MethodError, status_for
from rota.interfaces.operations.operation import Call, Operation, Reply, Stream

LONGEST_EVENT_ID = 100
MOST_PARSED_AT_ONCE = 256 * 1024  # bytes; what is larger is parsed beside the loop, which has leases to renew


class Endpoint:
    """One operation, over HTTP."""

    def __init__(self, operation: Operation, state: ServerState) -> None:
        self._operation = operation
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        clock, collector = self._state.services.node.clock, self._state.services.node.collector
        began, status = clock.monotonic(), 500
        try:
            with self._state.holding() as count:
                call = await self._read(scope, receive, count=count)
                answer = await self._operation.handler(call)
            status = answer.status if isinstance(answer, Reply) else 200
        except RotaError as error:
            status = status_for(error)
            raise
        finally:
            name = self._operation.name
            collector.add(metrics.HTTP_REQUESTS, name, str(status))
            collector.observe(metrics.HTTP_SECONDS, name, value=clock.monotonic() - began)
        if isinstance(answer, Stream):
            await self._stream(answer, Request(scope, receive), send=send)
        else:
            await _respond(answer, send, text_type=self._operation.text_type)

    async def _read(self, scope: Scope, receive: Receive, *, count: Callable[[int], None]) -> Call[Any, Any]:
        operation, principal, client = self._operation, _principal(scope), scope.get("client")
        principal.require(operation.role)
        query = parse_query(scope["query_string"], operation.query)
        return Call(
            services=self._state.services,
            principal=principal,
            query=query,
            body=await self._read_body(scope, receive, count=count),
            address=client[0] if client else "",
            path=scope.get("path_params", {}),
            idempotency_key=_header(scope, "idempotency-key", longest=MAX_KEY_LENGTH) if operation.takes_key else None,
            wants_stream=operation.streams and sse.MEDIA_TYPE in (find_header(scope, b"accept") or ""),
            last_event_id=_place(scope, operation),
            stopping=self._state.stopping,
        )

    async def _read_body(self, scope: Scope, receive: Receive, *, count: Callable[[int], None]) -> Any:
        wanted = self._operation.body
        if wanted is None:
            return None
        raw = await read_body(scope, receive, most=self._operation.most_bytes, count=count)
        if not raw and not self._operation.needs_body:
            return wanted()
        check_media_type(scope)
        most_marks = self._operation.most_marks
        if len(raw) <= MOST_PARSED_AT_ONCE:
            return parse_body(raw, wanted, most_marks=most_marks)
        async with self._state.parsing:
            return await asyncio.to_thread(parse_body, raw, wanted, most_marks=most_marks)

    async def _stream(self, answer: Stream, request: Request, *, send: Send) -> None:
        sessions, proof = self._state.sessions, request.scope[PROOF]
        with self._state.streaming():
            stream = sse.SseStream(
                answer.frames, stopping=self._state.stopping, check_token=lambda: sessions.authenticate(proof)
            )
            await stream.response()(request.scope, request.receive, send)


class Plain:
    """A function from request to response, as an application."""

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)


class Methods:
    """What one path can do, by method."""

    def __init__(self, endpoints: Mapping[str, ASGIApp]) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is None:
            raise MethodError(scope["method"], sorted(self._endpoints))
        await endpoint(scope, receive, send)


def read_only(app: ASGIApp) -> dict[str, ASGIApp]:
    """The methods of what can only be looked at."""
    return {"GET": app, "HEAD": app}


def _principal(scope: Scope) -> Principal:
    principal = scope[PRINCIPAL]
    assert isinstance(principal, Principal)  # noqa: S101 the gate lets nobody in without one
    return principal


def _header(scope: Scope, name: str, *, longest: int) -> str | None:
    value = find_header(scope, name.encode())
    return None if value is None else check_text(name.title(), value, longest=longest)


def _place(scope: Scope, operation: Operation) -> str | None:
    """Where a stream is to go on, as a browser says it."""
    given = _header(scope, "last-event-id", longest=LONGEST_EVENT_ID) if operation.places else None
    return operation.places.check("Last-Event-ID", given) if operation.places and given is not None else None


async def _respond(reply: Reply, send: Send, *, text_type: str | None) -> None:
    """Plain ASGI: a response object is made for more than is needed here, and every task created pays for it."""
    content, kind = b"" if reply.body is None else msgspec.json.encode(reply.body), b"application/json"
    if reply.text is not None:
        content, kind = reply.text.encode(), f"{text_type}; charset=utf-8".encode()
    headers = [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
    if reply.body is not None:
        headers += [(b"content-type", kind), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
