"""Health and figures of a process on a port of their own, for whoever looks after it: `/livez`, `/readyz`, `/metrics`.

A process without the API has no other. There is no token: nothing can be changed here, and of tasks nothing is told but
the names of their types. It goes on while the process drains, and ends with it.
"""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.application.roles import Roles
from rota.config.exposure import is_loopback
from rota.config.settings import MonitorSettings
from rota.domain.errors import ConfigError, RotaError
from rota.interfaces.http.body import find_header
from rota.interfaces.http.endpoint import Methods, Plain, read_only
from rota.interfaces.http.gate import Answer, host_name
from rota.interfaces.http.probes import Probes
from rota.interfaces.http.protocol import PromptProtocol
from rota.interfaces.http.server import (
    LOOPBACK_NAMES,
    Server,
    listen,
    plain_config,
    serve_until_cancelled,
    spell_address,
)
from rota.interfaces.operations.errors import HostError, NoRouteError
from rota.interfaces.ports import PortTakenError, find_free

MOST_CONNECTIONS = 100

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Monitor:
    """Listens already; `run` serves until it is cancelled."""

    sockets: Sequence[socket.socket]
    server: Server

    async def run(self) -> None:
        log.info("monitor.listening", address=spell_address("http", self.sockets))
        await serve_until_cancelled(self.server, self.sockets)


def serve_monitor(roles: Roles, settings: MonitorSettings) -> Monitor:
    """A server that listens already, so that a port that is taken is known before anything runs."""
    probes = Probes(roles.node, roles.is_open)
    answers = {"/livez": probes.livez, "/readyz": probes.readyz, "/metrics": probes.metrics}
    paths = {path: Methods(read_only(Plain(answer))) for path, answer in answers.items()}
    hosts = LOOPBACK_NAMES | {settings.host.lower()} if is_loopback(settings.host) else None
    config = plain_config(
        _Window(paths, hosts),
        http=PromptProtocol,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    return Monitor(_listen(settings.host, settings.port or 0), Server(config))


@dataclass(frozen=True, slots=True)
class _Window:
    """The paths, and what is told of any other. On loopback a page in a browser here is answered under no name of its
    own (`server.py`)."""

    paths: Mapping[str, ASGIApp]
    hosts: frozenset[str] | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        answer = Answer(send)
        try:
            await self._find(scope)(scope, receive, answer.send)
        except RotaError as error:
            await answer.tell(error, scope, receive=receive)

    def _find(self, scope: Scope) -> ASGIApp:
        name = host_name((find_header(scope, b"host") or "").encode("latin-1"))
        if self.hosts is not None and name not in self.hosts:
            raise HostError(f"health and figures are not told to {name[:100]!r}; ask 127.0.0.1, or set monitor.host")
        if scope["path"] not in self.paths:
            raise NoRouteError(f"there are {', '.join(self.paths)} here, and nothing else")
        return self.paths[scope["path"]]


def _listen(host: str, port: int) -> list[socket.socket]:
    try:
        return listen(host, port, section="monitor")
    except PortTakenError as exc:
        raise ConfigError(exc.problem, fix=f"--set monitor.port={find_free(host, port + 1)}") from exc
