"""One request and its answer, by aiohttp. All that is known of that library is here.

Requests are never sent twice: aiohttp repeats some on a connection that breaks, and is told not to. Names are resolved
by the guard, for every connection anew, and the connection goes to the addresses that it gave. Proxies, cookies and
credentials of the environment are not used. What is read is bounded: the headers by the parser, the body here, after
its compression is undone.
"""

import asyncio
import socket
import ssl
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import NoReturn

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from rota.infrastructure.executors.http.answer import EXCERPT, MAX_HOST, Answer, is_success
from rota.infrastructure.executors.http.config import Plan
from rota.infrastructure.executors.http.connection import OneAnswer
from rota.infrastructure.executors.http.request import Request
from rota.infrastructure.executors.http.settings import TargetSettings
from rota.infrastructure.executors.http.trouble import ExchangeError
from rota.infrastructure.executors.targets import TargetGuard, TargetRefusedError

MAX_HEADER = 8190  # bytes of a line
MAX_HEADERS = 128
MOST_JUDGED = 1000
DECODED_AT_ONCE = 65_536  # bytes
IDLE_SECONDS = 15.0  # that an unused connection is kept
EXCERPT_SECONDS = 1.0  # that the body of an error is waited for: what it is, its status has said
_parse = lru_cache(maxsize=1024)(partial(URL, encoded=True))
_timeout = lru_cache(maxsize=64)(lambda connect: aiohttp.ClientTimeout(total=None, connect=connect))
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 47}


class GuardedResolver(AbstractResolver):
    def __init__(self, guard: TargetGuard) -> None:
        self._guard = guard

    async def resolve(  # fixed signature: aiohttp calls it
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._guard.resolve(host, port)
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in found
        ]

    async def close(self) -> None:
        pass


class Transport:
    """Connections to all targets. Made on the loop that uses it."""

    def __init__(self, guard: TargetGuard, targets: Mapping[str, TargetSettings]) -> None:
        self._guard = guard
        self._judged: set[tuple[str | None, int | None]] = set()
        self._targets = targets
        self._contexts: dict[str, ssl.SSLContext] = {}  # of targets that were called
        connector = aiohttp.TCPConnector(
            resolver=GuardedResolver(guard),
            use_dns_cache=False,
            limit=0,  # each target has its own
            keepalive_timeout=IDLE_SECONDS,
        )
        connector._factory = partial(OneAnswer, loop=asyncio.get_running_loop())  # type: ignore[assignment] # narrower
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            max_line_size=MAX_HEADER,
            max_field_size=MAX_HEADER,
            max_headers=MAX_HEADERS,
        )
        self._session._retry_connection = False  # else a GET whose connection breaks is sent a second time

    async def close(self) -> None:
        await self._session.close()

    async def exchange(self, request: Request, plan: Plan, *, most: int) -> Answer:
        """Send it once and read the answer, no more than so many bytes; `ExchangeError` when none can be used."""
        try:
            url = _parse(request.url)
            if (url.host, url.port) not in self._judged:
                await self._judge(url)
            response = await self._send(request, plan, url=url)
            try:
                return await _read(response, plan, most=most)
            finally:
                if not response.closed:  # else it was read to its end, and the connection is free again
                    response.close()
        except (aiohttp.ClientError, TargetRefusedError, OSError, ValueError, zlib.error) as exc:
            _translate(exc)

    async def _judge(self, url: URL) -> None:
        """aiohttp asks the resolver for names, and for each connection; of an address the answer never changes."""
        host, port = url.host or "", url.port or 0
        if self._guard.check_literal(host, port) is not None:
            await self._guard.resolve(host, port)
        if len(self._judged) >= MOST_JUDGED:
            self._judged.clear()
        self._judged.add((url.host, url.port))

    async def _send(self, request: Request, plan: Plan, *, url: URL) -> aiohttp.ClientResponse:
        config = plan.config
        context = None if config.target is None else await self._find_context(config.target)
        sent = self._session.request(
            request.method,
            url,
            data=request.body or None,
            headers=request.headers,
            allow_redirects=False,
            ssl=True if context is None else context,
            timeout=_timeout(config.connect_timeout_seconds),
        )
        try:
            if config.response_timeout_seconds is None:  # then nothing but the deadline of the attempt bounds it
                return await sent
            async with asyncio.timeout(config.response_timeout_seconds):
                return await sent
        except aiohttp.ConnectionTimeoutError as exc:
            problem = f"no connection within {config.connect_timeout_seconds:g} s"
            raise ExchangeError("connect_timeout", problem) from exc
        except TimeoutError as exc:
            problem = f"no answer within {config.response_timeout_seconds:g} s"
            raise ExchangeError("response_timeout", problem) from exc

    async def _find_context(self, name: str) -> ssl.SSLContext:
        """Made with the first call: files that cannot be used fail the calls that need them, and no others."""
        context = self._contexts.get(name)
        if context is None:
            try:
                context = self._contexts[name] = await asyncio.to_thread(_context_of, self._targets[name])
            except OSError as exc:
                problem = f"the files of http.targets.{name} cannot be used: {_reason(exc)}"
                raise ExchangeError("bad_config", problem, is_retryable=False, is_fault=False) from exc
        return context


async def _read(response: aiohttp.ClientResponse, plan: Plan, *, most: int) -> Answer:
    is_wanted = is_success(response.status, plan.config.success)
    body = await (_read_body(response, most) if is_wanted else _read_excerpt(response))
    return Answer(response.status, response.headers, body)


async def _read_body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """All of it, after its compression is undone; stops as soon as it is too much."""
    decoder = _decoder_of(response)
    parts: list[bytes] = []
    size = 0
    content = response.content
    while not content.at_eof():
        chunk = await content.readany()
        for part in (chunk,) if decoder is None else _decode(decoder, chunk):
            parts.append(part)
            size += len(part)
            if size > most:
                problem = f"the answer has more than {most} bytes"
                raise ExchangeError("response_too_large", problem, is_retryable=False, is_answered=True)
    if decoder is not None and size and not decoder.eof:
        raise ExchangeError("bad_response", "the compressed answer ends in its middle", is_answered=True)
    return b"".join(parts)


def _decode(decoder: "zlib._Decompress", chunk: bytes) -> Iterator[bytes]:
    """In small parts: zlib needs the room of a part twice, and what is too much is to be seen before that."""
    while part := decoder.decompress(chunk, DECODED_AT_ONCE):
        yield part
        chunk = decoder.unconsumed_tail


async def _read_excerpt(response: aiohttp.ClientResponse) -> bytes:
    """The beginning of an error's body, if it comes soon and can be read."""
    parts: list[bytes] = []
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        return b""
    try:
        async with asyncio.timeout(EXCERPT_SECONDS):
            while sum(map(len, parts)) < EXCERPT and (chunk := await response.content.readany()):
                parts.append(chunk)
    except (TimeoutError, aiohttp.ClientError):
        pass  # the status has come, and that counts
    return b"".join(parts)[:EXCERPT]


def _decoder_of(response: aiohttp.ClientResponse) -> "zlib._Decompress | None":
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding in ("", "identity"):
        return None
    if coding not in _WINDOWS:
        problem = f"the answer is compressed by {coding[:40]!r}, which was not asked for"
        raise ExchangeError("bad_response", problem, is_retryable=False, is_answered=True)
    return zlib.decompressobj(_WINDOWS[coding])


def _translate(error: Exception) -> NoReturn:
    """What the library raised, as the code and the sentence that the task will show."""
    match error:
        case TargetRefusedError():
            raise ExchangeError("target_refused", str(error), is_retryable=False, is_fault=False) from error
        case aiohttp.InvalidURL():
            raise ExchangeError(
                "target_refused", "the URL is none to call", is_retryable=False, is_fault=False
            ) from error
        case aiohttp.ClientConnectorDNSError():
            raise ExchangeError("dns_failed", f"the host {error.host[:MAX_HOST]} has no address") from error
        case aiohttp.ClientSSLError() | ssl.SSLError():
            raise ExchangeError("tls_failed", f"no TLS connection: {_reason(error)}") from error
        case aiohttp.ClientResponseError():
            raise ExchangeError(
                "bad_response", f"the answer is not HTTP: {_reason(error)}", is_answered=True
            ) from error
        case aiohttp.ClientPayloadError() | zlib.error() | ValueError():
            raise ExchangeError("bad_response", f"the answer is broken: {_reason(error)}", is_answered=True) from error
        case _:
            raise ExchangeError("connection_failed", f"the connection failed: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    inner = getattr(error, "os_error", None) or error
    text = getattr(inner, "strerror", None) or getattr(inner, "message", None) or type(inner).__name__
    return str(text)[:200]


def _context_of(target: TargetSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=target.ca)
    if target.cert is not None:
        context.load_cert_chain(target.cert, target.key, password="")  # else it would ask on the terminal
    return context
