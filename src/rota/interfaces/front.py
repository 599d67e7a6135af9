"""What an API process serves: HTTP, and gRPC beside it where its library is installed."""

import asyncio
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import structlog

from rota.application.services import Services
from rota.config.quiet_grpc import quiet_grpc
from rota.config.settings import ApiSettings
from rota.interfaces.http.console import is_built
from rota.interfaces.http.server import HttpServer, serve_http

if TYPE_CHECKING:
    from rota.interfaces.grpc.server import GrpcServer

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ApiFront:
    """Both servers as one. HTTP ends last: it closes what both submit through."""

    http: HttpServer
    grpc: "GrpcServer | None" = None

    @property
    def address(self) -> str:
        return self.http.address

    @property
    def services(self) -> Services:
        return self.http.services

    def tune(self, api: ApiSettings) -> None:
        self.http.tune(api)

    def stop(self) -> None:
        self.http.state.stopping.set()
        if self.grpc is None:
            self.http.stop()
        else:
            self.grpc.stop()

    async def run(self) -> None:
        """Until it is stopped; one that ends by itself ends the other."""
        http = asyncio.create_task(self.http.run())
        beside = None if self.grpc is None else asyncio.create_task(self.grpc.run())
        try:
            if beside is not None:
                await asyncio.wait({http, beside}, return_when=asyncio.FIRST_COMPLETED)
                self.stop()
                await beside
                self.http.stop()
            await http
        finally:
            for part in (http, beside):
                if part is not None:
                    part.cancel()


def grpc_address(front: object) -> str | None:
    """Where gRPC is served, if it is."""
    return front.grpc.address if isinstance(front, ApiFront) and front.grpc is not None else None


def console_link(front: object, token_id: str) -> str | None:
    """An address that opens the console once, as whoever holds this token; None where no console was built."""
    if not isinstance(front, ApiFront) or not is_built():
        return None
    return f"{front.address}/#/login?code={front.http.state.codes.make(token_id)}"


def serve_api(services: Services, api: ApiSettings) -> ApiFront:
    """Servers that listen already."""
    return _serve(services, api)


def serve_dev(services: Services, api: ApiSettings) -> ApiFront:
    """The same, and whoever asks over gRPC is told what there is."""
    return _serve(services, api, with_reflection=True)


def _serve(services: Services, api: ApiSettings, *, with_reflection: bool = False) -> ApiFront:
    http = serve_http(services, api)
    if api.grpc_port is None:
        return ApiFront(http)
    if find_spec("grpc") is None:
        log.info("grpc.absent", hint="pip install 'rota[grpc]', or api.grpc_port: null")
        return ApiFront(http)
    quiet_grpc()
    from rota.interfaces.grpc.server import serve_grpc

    try:
        return ApiFront(http, serve_grpc(http, api, port=api.grpc_port, with_reflection=with_reflection))
    except BaseException:
        for listener in http.sockets:
            listener.close()
        raise
