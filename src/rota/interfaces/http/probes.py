"""What supervisors and monitors ask: is it alive, is it ready, how is it doing."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rota.application.node import Node
from rota.application.ports.metrics import MetricsPage
from rota.domain.errors import NotFoundError, RotaError, UnavailableError

PATIENCE = timedelta(seconds=1)
REMEMBERED = timedelta(seconds=1)  # anybody may ask, so asking often must cost the store nothing

log = structlog.get_logger(__name__)


class Probes:
    def __init__(self, node: Node, is_open: Callable[[], bool]) -> None:
        """`is_open`: whether this process does what it is there for, as far as it knows by itself."""
        self._node = node
        self._is_open = is_open
        self._clock = node.clock
        self._answer: bool | None = None
        self._asked_at = 0.0
        self._asking = asyncio.Lock()

    async def livez(self, _request: Request) -> Response:
        """This process answers. Nothing else is asked: a restart would not mend a store."""
        return JSONResponse({"status": "alive"})

    async def readyz(self, _request: Request) -> Response:
        """Whether it can be counted on: store and coordinator answer, and it does not stop."""
        if not await self.is_ready():
            raise UnavailableError("not ready")
        return JSONResponse({"status": "ready"})

    async def is_ready(self) -> bool:
        """The same, for whoever asks in another way."""
        return self._is_open() and await self._is_connected()

    async def metrics(self, _request: Request) -> Response:
        """The figures of this process, for Prometheus. Who may read them is for others to say."""
        collector = self._node.collector
        if not isinstance(collector, MetricsPage):
            raise NotFoundError("metrics page", "of this collector")
        return Response(collector.render(), media_type=collector.content_type)

    async def _is_connected(self) -> bool:
        async with self._asking:
            now = self._clock.monotonic()
            if self._answer is None or now - self._asked_at >= REMEMBERED.total_seconds():
                self._answer = await self._ask()
                self._asked_at = self._clock.monotonic()
            return self._answer

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await asyncio.gather(self._node.store.tasks.now(), self._node.coordinator.election.find_leader())
        except (RotaError, TimeoutError) as exc:
            log.warning("node.not_ready", error=str(exc) or f"no answer within {PATIENCE.total_seconds():g} s")
            return False
        return True
