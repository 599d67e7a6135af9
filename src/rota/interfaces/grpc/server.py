"""The gRPC server inside a process of the cluster, beside the HTTP server, with which it shares rates and bounds.

Health (`grpc.health.v1`) answers anybody, as `/readyz` does. Reflection is for `rota dev` alone.
"""

import asyncio
import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from rota.config.settings import ApiSettings
from rota.domain.errors import ConfigError
from rota.interfaces.grpc.methods import SERVICE
from rota.interfaces.grpc.service import TaskService
from rota.interfaces.http.admission import Admission
from rota.interfaces.http.gate import MOST_HEADER_BYTES
from rota.interfaces.http.probes import Probes
from rota.interfaces.http.server import STOP_WITHIN, HttpServer
from rota.interfaces.operations.tasks import MOST_BATCH_BYTES, MOST_PAGE_BYTES
from rota.interfaces.ports import suggest_ports

SLACK = 1024 * 1024  # between the most of ours and where the library itself cuts: ours has the better words
OPTIONS: Sequence[tuple[str, Any]] = (
    ("grpc.so_reuseport", 0),  # or a second server would share the port in silence
    ("grpc.max_receive_message_length", MOST_BATCH_BYTES + SLACK),
    ("grpc.max_send_message_length", 4 * MOST_PAGE_BYTES),
    ("grpc.max_metadata_size", MOST_HEADER_BYTES),
    ("grpc.absolute_max_metadata_size", 2 * MOST_HEADER_BYTES),
    ("grpc.max_concurrent_streams", 100),  # of one connection
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)

log = structlog.get_logger(__name__)


class Health(health_pb2_grpc.HealthServicer):
    """Whether calls should be sent here. To watch it is not offered: anybody could, for ever."""

    def __init__(self, probes: Probes) -> None:
        self._probes = probes

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 the name in the protocol
        if request.service not in ("", SERVICE):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {request.service[:100]!r}")
        kinds = health_pb2.HealthCheckResponse
        return kinds(status=kinds.SERVING if await self._probes.is_ready() else kinds.NOT_SERVING)


@dataclass(slots=True)
class GrpcServer:
    """Run once. `stop` ends it in good order."""

    server: grpc.aio.Server
    host: str
    port: int
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def address(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        """Until it is stopped."""
        await self.server.start()
        log.info("grpc.listening", address=self.address)
        try:
            await self._stopping.wait()
        finally:
            await self.server.stop(STOP_WITHIN.total_seconds())
        log.info("grpc.stopped")


def serve_grpc(http: HttpServer, api: ApiSettings, *, port: int, with_reflection: bool = False) -> GrpcServer:
    """A server that has its port already, so that one that is taken is known before anything runs."""
    server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=api.max_connections)
    server.add_generic_rpc_handlers((TaskService(http.state, Admission(http.services.tokens, http.limiter)),))
    health_pb2_grpc.add_HealthServicer_to_server(Health(Probes(http.services.node, http.state.is_open)), server)
    if with_reflection:
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    return GrpcServer(server, api.host, _listen(server, api, port=port))


def _listen(server: grpc.aio.Server, api: ApiSettings, *, port: int) -> int:
    """Every address of the host, on one port."""
    credentials = _credentials(api)
    found = socket.getaddrinfo(api.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for address in dict.fromkeys(str(entry[4][0]) for entry in found):
        place = f"{f'[{address}]' if ':' in address else address}:{port}"
        try:
            if credentials is None:
                port = server.add_insecure_port(place)
            else:
                port = server.add_secure_port(place, credentials)
        except RuntimeError as exc:
            raise _unusable(api, port) from exc
    return port


def _unusable(api: ApiSettings, port: int) -> ConfigError:
    host = api.host
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:  # the library does not say why
            probe.bind((host, port))
        except OSError as exc:
            if exc.errno == errno.EADDRINUSE:
                return ConfigError(f"port {port} of {host} is in use", fix=suggest_ports(api, "grpc_port"))
            return ConfigError(f"cannot listen at {host} port {port}: {exc}", fix="--set api.grpc_port=8421")
    problem = f"cannot listen at {host} port {port}; with api.grpc_port=null there is no gRPC"
    return ConfigError(problem, fix="--set api.grpc_port=null")


def _credentials(api: ApiSettings) -> grpc.ServerCredentials | None:
    if api.tls_cert is None or api.tls_key is None:
        return None
    return grpc.ssl_server_credentials([(Path(api.tls_key).read_bytes(), Path(api.tls_cert).read_bytes())])
