"""Both clients behind one face: a scripted server, and a clock on which pauses take no time."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx2

import rota
from rota.application.ports.system import System
from rota.client.sync_wire import SyncSystem
from tests.support.clock import START

TASK = {
    "id": "7",
    "tenant": "default",
    "type": "email",
    "name": "",
    "status": "PENDING",
    "priority": 0,
    "payload": {"to": "ada"},
    "metadata": {},
    "attempt": 0,
    "retry_count": 0,
    "max_retries": 3,
    "timeout_seconds": 60.0,
    "worker_id": None,
    "scheduled_at": None,
    "created_at": "2030-06-01T12:00:00.000000Z",
    "started_at": None,
    "completed_at": None,
    "next_attempt_at": None,
    "result": None,
    "error": None,
    "rerun_of": None,
}

Answer = httpx2.Response | Exception | Callable[[httpx2.Request], httpx2.Response]


def problem(status: int, code: str, *, detail: str = "no", **more: Any) -> httpx2.Response:
    """A problem document; `headers` go beside it."""
    headers = {"content-type": "application/problem+json", **more.pop("headers", {})}
    body = {"type": "about:blank", "title": "", "status": status, "code": code, "detail": detail, **more}
    return httpx2.Response(status, json=body, headers=headers)


def task(**changes: Any) -> httpx2.Response:
    return httpx2.Response(200, json={**TASK, **changes})


class FixedChance:
    def chance(self) -> float:
        return 1.0  # the longest pauses


class Jumping:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.pauses: list[float] = []

    def now(self) -> Any:
        return START + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    def jump(self, duration: timedelta) -> None:
        self.pauses.append(duration.total_seconds())
        self.passed += duration.total_seconds()


class JumpingSync(Jumping):
    def sleep(self, duration: timedelta) -> None:
        self.jump(duration)


class JumpingAsync(Jumping):
    async def sleep(self, duration: timedelta) -> None:
        self.jump(duration)


@dataclass
class Dial:
    """One client of either kind, and what it sent."""

    is_async: bool
    answers: list[Answer] = field(default_factory=list)
    sent: list[httpx2.Request] = field(default_factory=list)
    clock: Any = None

    def __post_init__(self) -> None:
        self.clock = JumpingAsync() if self.is_async else JumpingSync()

    def ask(self, use: Callable[[Any], Any], *answers: Answer, **options: Any) -> Any:
        """What the client says when the server answers like this; an iterator becomes a list."""
        self.answers += answers
        if self.is_async:
            return asyncio.run(self._ask_async(use, options))
        system = SyncSystem(self.clock, FixedChance())
        with rota.Client("http://rota.test", "rota_x", system=system, transport=self._transport(), **options) as client:
            found = use(client)
            return list(found) if isinstance(found, Iterator) else found

    async def _ask_async(self, use: Callable[[Any], Any], options: Any) -> Any:
        system = System(self.clock, FixedChance())
        transport = self._transport()
        async with rota.AsyncClient(
            "http://rota.test", "rota_x", system=system, transport=transport, **options
        ) as client:
            found = use(client)
            return [item async for item in found] if hasattr(found, "__anext__") else await found

    def _transport(self) -> httpx2.MockTransport:
        return httpx2.MockTransport(self._answer)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, httpx2.Response):
            return answer(request)
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)  # one for each try
