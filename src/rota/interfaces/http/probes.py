"""What supervisors and monitors ask: is it alive, is it ready, how is it doing."""

import asyncio
from datetime import timedelta

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rota.application.ports.metrics import MetricsPage
from rota.domain.access import Role
from rota.domain.errors import NotFoundError, RotaError, UnavailableError
from rota.interfaces.http.gate import PRINCIPAL
from rota.interfaces.http.state import ServerState

PATIENCE = timedelta(seconds=1)
REMEMBERED = timedelta(seconds=1)  # anybody may ask, so asking often must cost the store nothing

log = structlog.get_logger(__name__)


class Probes:
    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._clock = state.services.node.clock
        self._answer: bool | None = None
        self._asked_at = 0.0
        self._asking = asyncio.Lock()

    async def livez(self, _request: Request) -> Response:
        """This process answers. Nothing else is asked: a restart would not mend a store."""
        return JSONResponse({"status": "alive"})

    async def readyz(self, _request: Request) -> Response:
        """Whether requests should be sent here: store and coordinator answer, and it does not stop."""
        if not await self.is_ready():
            raise UnavailableError("not ready")
        return JSONResponse({"status": "ready"})

    async def is_ready(self) -> bool:
        """The same, for whoever asks in another way."""
        return not self._state.stopping.is_set() and await self._is_connected()

    async def metrics(self, request: Request) -> Response:
        """The figures of this process, for Prometheus."""
        request.scope[PRINCIPAL].require(Role.VIEWER)
        collector = self._state.services.node.collector
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
        node = self._state.services.node
        try:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await asyncio.gather(node.store.tasks.now(), node.coordinator.election.find_leader())
        except (RotaError, TimeoutError) as exc:
            log.warning("api.not_ready", error=str(exc) or f"no answer within {PATIENCE.total_seconds():g} s")
            return False
        return True
