"""For services that Rota calls: check who calls, read the task, answer. No framework is needed, any can be used.

    receiver = rota.receive.Receiver(os.environ["ROTA_SECRET"])

    reply = receiver.handle(send_email, headers=request.headers, body=request.body)
    return Response(reply.body, status=reply.status, headers=reply.headers)

`send_email` gets a `ReceivedTask`; for a coroutine function there is `handle_async`. What it returns is the result.
`rota.Fail` ends the task, `rota.Retry` and `rota.Snooze` ask for another attempt after their pause, and any other
exception is a failure that is tried again. `receiver.asgi(function)` and `receiver.wsgi(function)` are whole
applications.

`LATER` as the result says that the work goes on (202), and that the service will say how it ended by a POST to
`task.callback_url` with `:complete` or `:fail` appended. The body's link is signed; the header `Rota-Callback` is not.
"""

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from rota.infrastructure.system import SystemClock
from rota.sdk import signing
from rota.sdk.control import Fail, Retry, Snooze
from rota.sdk.signing import SignatureError

TOLERANCE = timedelta(minutes=5)  # between the clocks of sender and receiver, as the specification recommends
MAX_BODY = 1024 * 1024  # bytes; payloads have at most 256 KiB
JSON: Final = {"content-type": "application/json"}

REAL_NOW: Final = SystemClock().now
Headers = Mapping[str, str] | Iterable[tuple[str, str]]

__all__ = ["LATER", "Later", "ReceivedTask", "Receiver", "RefusedError", "Reply", "SignatureError"]


class Later:
    """What a function returns whose work goes on after it."""


LATER: Final = Later()


class ReceivedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a task, as Rota sent it."""

    task_id: str  # the same for every attempt: what makes an effect happen once
    attempt: int
    type: str
    payload: Any = None
    metadata: dict[str, str] = {}
    deadline: datetime | None = None
    callback_url: str = ""  # empty: there is none, and nothing can be finished later


@dataclass(frozen=True, slots=True)
class Reply:
    """What the service answers."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: dict(JSON))


class RefusedError(Exception):
    """The request is not one that Rota made for this service; `reply` is what to answer."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.reply = _problem(status, problem)


class Receiver:
    """Knows the secrets of a service, and turns its functions into answers."""

    def __init__(
        self,
        secrets: str | Sequence[str],
        *,
        tolerance: timedelta = TOLERANCE,
        now: Callable[[], datetime] = REAL_NOW,
    ) -> None:
        """One secret, or several while one is replaced: a signature with any of them counts."""
        given = [secrets] if isinstance(secrets, str) else list(secrets)
        if not given:
            raise ValueError("at least one secret is needed")
        self._keys = [signing.key_of(secret) for secret in given]
        self._tolerance = tolerance.total_seconds()
        self._now = now

    def open(self, headers: Headers, body: bytes) -> ReceivedTask:
        """Check who sent it and read it; `RefusedError` with the answer when it is not to be trusted."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        lower = {name.lower(): value for name, value in pairs}
        try:
            signing.verify(self._keys, lower, body=body, now=self._now().timestamp(), tolerance=self._tolerance)
        except SignatureError as exc:
            raise RefusedError(401, str(exc)) from exc
        try:
            return msgspec.json.decode(body, type=ReceivedTask)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise RefusedError(400, f"the body is no task: {exc}") from exc

    def handle(self, function: Callable[[ReceivedTask], Any], *, headers: Headers, body: bytes) -> Reply:
        """Check, read, run, and say what to answer. Never raises an `Exception`."""
        try:
            return _reply_to(function(self.open(headers, body)))
        except Exception as exc:  # whatever the user's code raises is an answer
            return _reply_of(exc)

    async def handle_async(
        self, function: Callable[[ReceivedTask], Awaitable[Any]], *, headers: Headers, body: bytes
    ) -> Reply:
        """The same for a coroutine function."""
        try:
            return _reply_to(await function(self.open(headers, body)))
        except Exception as exc:  # the same
            return _reply_of(exc)

    def asgi(self, function: Callable[[ReceivedTask], Awaitable[Any]]) -> Callable[..., Awaitable[None]]:
        """An ASGI application that takes tasks at every path."""

        async def app(scope: Any, receive: Any, send: Any) -> None:  # fixed signature: ASGI
            if scope["type"] != "http":
                raise ValueError(f"this application is for http, not {scope['type']}")
            body = await _read_asgi(receive)
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
            reply = TOO_LARGE if body is None else await self.handle_async(function, headers=headers, body=body)
            raw = [(name.encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
            await send({"type": "http.response.start", "status": reply.status, "headers": raw})
            await send({"type": "http.response.body", "body": reply.body})

        return app

    def wsgi(self, function: Callable[[ReceivedTask], Any]) -> Callable[..., list[bytes]]:
        """A WSGI application that takes tasks at every path."""

        def app(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> list[bytes]:  # fixed signature: WSGI
            body = _read_wsgi(environ)
            headers = [(key[5:].replace("_", "-"), value) for key, value in environ.items() if key.startswith("HTTP_")]
            reply = body if isinstance(body, Reply) else self.handle(function, headers=headers, body=body)
            start_response(f"{reply.status} Rota", list(reply.headers.items()))
            return [reply.body]

        return app


async def _read_asgi(receive: Any) -> bytes | None:
    """The body; None when it is larger than any task."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _read_wsgi(environ: Mapping[str, Any]) -> bytes | Reply:
    """The body, or what to answer to one that is not to be read."""
    length = str(environ.get("CONTENT_LENGTH") or 0)
    if not (length.isascii() and length.isdigit()):
        return _problem(400, "the length of the body is no number")
    if len(length) > 9 or int(length) > MAX_BODY:
        return TOO_LARGE
    body: bytes = environ["wsgi.input"].read(int(length))
    return body


def _reply_to(result: Any) -> Reply:
    if isinstance(result, Later):
        return Reply(202)
    if result is None:
        return Reply(204, headers={})
    return Reply(200, msgspec.json.encode(result))


def _reply_of(error: Exception) -> Reply:
    match error:
        case RefusedError():
            return error.reply
        case Retry():
            return _problem(429, str(error), after=error.after)  # not 503: a proxy says so when nobody answers
        case Snooze():
            reply = _problem(429, str(error), after=error.delay)
            return replace(reply, headers={**reply.headers, "rota-snooze": reply.headers["retry-after"]})
        case Fail():
            return _problem(422, str(error))
        case _:
            return _problem(500, f"{type(error).__name__}: {error}"[:2000])


def _problem(status: int, text: str, *, after: timedelta | None = None) -> Reply:
    wait = {} if after is None else {"retry-after": str(math.ceil(after.total_seconds()))}
    return Reply(status, json.dumps({"error": text}).encode(), {**JSON, **wait})


TOO_LARGE: Final = _problem(413, "no task is as large as this")
