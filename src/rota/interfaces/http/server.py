"""The API server inside a process of the cluster: it listens, serves, and ends in good order.

Stopping: it is not ready any more, streams and long polls end, no connection is accepted, requests under way are
finished within a bound. Signals are the process's own: uvicorn's handlers are never installed.
"""

import asyncio
import errno
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import structlog
import uvicorn
from starlette.types import ASGIApp

from rota.application.services import Services
from rota.config.exposure import is_loopback
from rota.config.settings import ApiSettings
from rota.domain.errors import ConfigError
from rota.interfaces.http.app import build_app
from rota.interfaces.http.limiter import RateLimiter
from rota.interfaces.http.protocol import PromptProtocol
from rota.interfaces.http.state import ServerState
from rota.interfaces.ports import PortTakenError, is_taken, suggest_ports

STOP_WITHIN = timedelta(seconds=10)
IDLE = timedelta(seconds=60)  # how long a connection may wait for its next request
MOST_HEAD_BYTES = 64 * 1024
DATE_EVERY = timedelta(seconds=1)  # the date in an answer is that old at most
BACKLOG = 2048
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

log = structlog.get_logger(__name__)


class Server(uvicorn.Server):
    """One that is a part of a process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Let `serve` end in good order."""
        self.should_exit = True
        self._ending.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the process, which tells all its roles to stop."""
        yield

    async def main_loop(self) -> None:
        """uvicorn's own looks ten times a second whether it is to end, and has the date for its answers put right at
        every tenth look. Here it is told."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(DATE_EVERY.total_seconds()):
                    await self._ending.wait()


@dataclass(slots=True)
class HttpServer:
    """Run once. `stop` ends it in good order."""

    state: ServerState
    limiter: RateLimiter
    sockets: Sequence[socket.socket]
    server: Server
    scheme: str

    @property
    def address(self) -> str:
        """Where it listens: `http://127.0.0.1:8420`."""
        return spell_address(self.scheme, self.sockets)

    @property
    def services(self) -> Services:
        return self.state.services

    def tune(self, api: ApiSettings) -> None:
        """Take over what may change live."""
        self.limiter.tune(api.rate)

    def stop(self) -> None:
        self.state.stopping.set()
        self.server.end()

    async def run(self) -> None:
        """Until it is stopped."""
        log.info("api.listening", address=self.address)
        try:
            await self.server.serve(sockets=list(self.sockets))
        finally:
            await self.state.services.submit.close()
            for listener in self.sockets:
                listener.close()
        log.info("api.stopped")


def serve_http(services: Services, api: ApiSettings) -> HttpServer:
    """A server that listens already, so that a port that is taken is known before anything runs."""
    state = ServerState(services, most_streams=api.max_streams)
    limiter = RateLimiter(services.node.clock, api.rate)
    app = build_app(
        state, limiter, hosts=known_hosts(api), is_tls=api.tls_cert is not None, is_proxied=api.behind_tls_proxy
    )
    config = plain_config(
        app,
        http=PromptProtocol,
        limit_concurrency=api.max_connections,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE.seconds,
        timeout_graceful_shutdown=STOP_WITHIN.seconds,
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
        ssl_certfile=api.tls_cert,
        ssl_keyfile=api.tls_key,
    )
    _load(config)
    scheme = "http" if api.tls_cert is None else "https"
    return HttpServer(state, limiter, _listen(api), Server(config), scheme)


async def serve_until_cancelled(server: Server, sockets: Sequence[socket.socket]) -> None:
    """Serve beside others, which end it by cancelling; what is under way is ended in good order."""
    serving = asyncio.create_task(server.serve(sockets=list(sockets)))
    try:
        await asyncio.shield(serving)
    finally:
        server.end()
        await serving


def spell_address(scheme: str, sockets: Sequence[socket.socket]) -> str:
    """Where somebody listens, as a URL."""
    host, port = sockets[0].getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def plain_config(app: ASGIApp, **more: Any) -> uvicorn.Config:
    """HTTP and nothing around it: no logs, no signs of who serves, no loop of its own, no word of proxies believed."""
    return uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        **more,
    )


def _load(config: uvicorn.Config) -> None:
    try:
        config.load()
    except OSError as exc:  # also what ssl says of a certificate that it cannot use
        problem = f"api.tls_cert or api.tls_key cannot be used: {exc}"
        raise ConfigError(
            problem, fix="name a certificate and its key, both in PEM files that this user can read"
        ) from exc


def known_hosts(api: ApiSettings) -> frozenset[str] | None:
    """The names to answer to; None: any. On loopback only known ones: a page in a browser here may have a name of its
    own made to point at this address, and would then be taken for this server's own. The names of loopback are known
    everywhere, for health checks and tunnels: nobody can have those made to point anywhere else."""
    if not api.hosts and not is_loopback(api.host):
        return None
    public = urlsplit(api.public_url or "").hostname  # services outside know it by that
    return LOOPBACK_NAMES | {name.lower() for name in (*api.hosts, public or api.host, api.host)}


def _listen(api: ApiSettings) -> list[socket.socket]:
    try:
        return listen(api.host, api.port)
    except PortTakenError as exc:  # most likely by another server like this one, which has the other port too
        has_both = bool(api.grpc_port) and is_taken(api.host, api.grpc_port or 0)
        raise ConfigError(exc.problem, fix=suggest_ports(api, "port", *(["grpc_port"] if has_both else []))) from exc


def listen(host: str, port: int, *, section: str = "api") -> list[socket.socket]:
    """Sockets for every address of the host, or `ConfigError` with what to do about this section of the settings."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as exc:
        problem = f"{section}.host: {host} is no address of this machine: {exc}"
        raise ConfigError(problem, fix=f"{section}.host=127.0.0.1") from exc
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            sockets.append(_bind(family, address, port=port if not sockets else sockets[0].getsockname()[1]))
    except OSError as exc:
        for made in sockets:
            made.close()
        raise _unusable(host, port, exc=exc, section=section) from exc
    return sockets


def _bind(family: int, address: tuple[object, ...], *, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address[0], port, *address[2:]))
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _unusable(host: str, port: int, *, exc: OSError, section: str) -> ConfigError:
    if exc.errno == errno.EADDRINUSE:
        return PortTakenError(f"port {port} of {host} is in use", fix=f"--set {section}.port=0")
    if exc.errno == errno.EACCES:
        return ConfigError(f"port {port} needs more rights than this user has", fix=f"--set {section}.port=8420")
    return ConfigError(f"cannot listen at {host} port {port}: {exc}", fix=f"--set {section}.host=127.0.0.1")
