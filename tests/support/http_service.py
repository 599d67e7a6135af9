"""A service that the HTTP executor calls, and that remembers how."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from rota.domain.attempt import Failed, Outcome
from rota.infrastructure.executors.http.settings import HttpSettings
from rota.testing.values import replace
from tests.support.http_jobs import LOOPBACK


@dataclass
class Seen:
    """A request as the service got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    peer: object
    all: dict[str, list[str]]  # headers, with those that came twice

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = Callable[[], Awaitable[web.StreamResponse]]


@dataclass
class Service:
    """A service that answers everything alike, and remembers."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    answer: Answer | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        peer = request.transport.get_extra_info("peername") if request.transport else None
        every = {name.lower(): request.headers.getall(name) for name in request.headers}
        self.seen.append(Seen(request.method, request.path_qs, headers, await request.read(), peer, every))
        return web.json_response({"sent": True}) if self.answer is None else await self.answer()


@asynccontextmanager
async def a_service(ssl_context: Any = None) -> AsyncIterator[Service]:
    service = Service()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", service.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context)
    await site.start()
    port = runner.addresses[0][1]
    service.url = f"{'http' if ssl_context is None else 'https'}://localhost:{port}/hook"
    try:
        yield service
    finally:
        await runner.cleanup()


def code_of(outcome: Outcome) -> tuple[str, bool]:
    assert isinstance(outcome, Failed), outcome
    return outcome.error.code, outcome.error.retryable


def settings_with(**changes: Any) -> HttpSettings:
    return replace(HttpSettings(allow=LOOPBACK), **changes)
