"""The ASGI application: every operation as a route, the probes and the pages beside them, the gate in front."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.domain.access import Role
from rota.interfaces.http.console import Asset, FrontPage, list_assets
from rota.interfaces.http.endpoint import Endpoint, Methods, Plain, read_only
from rota.interfaces.http.gate import HTTPS_ONLY, PRINCIPAL, STRICT, Gate
from rota.interfaces.http.limiter import RateLimiter
from rota.interfaces.http.pages import FILES, Page, serve_openapi
from rota.interfaces.http.probes import Probes
from rota.interfaces.http.session import LOGIN, SESSION, SessionEndpoint
from rota.interfaces.http.state import ServerState
from rota.interfaces.operations.catalogue import BASE, OPERATIONS
from rota.interfaces.operations.errors import NoRouteError
from rota.interfaces.operations.operation import Operation

# The description and the console are the same for everybody; whoever logs in has nothing to show yet.
PUBLIC = frozenset({"/", "/livez", "/readyz", "/openapi.json", LOGIN, *FILES})


class _Key(Convertor[str]):
    """A part of a path up to the verb after it: `/tasks/17:cancel`."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("key", _Key())


def build_app(
    state: ServerState, limiter: RateLimiter, *, hosts: frozenset[str] | None, is_tls: bool = False, is_proxied: bool
) -> ASGIApp:
    """The whole of it; who may come in is the gate's to say."""
    assets = list_assets()
    sessions = SessionEndpoint(state, limiter, is_secure=is_tls or is_proxied)
    routes = [*_list_operations(OPERATIONS, state), *_list_others(state), *_list_console(assets, sessions)]
    node = state.services.node
    return Gate(
        app=_Paths(routes),
        tokens=state.services.tokens,
        sessions=state.sessions,
        callback_key=node.callback_key,
        limiter=limiter,
        collector=node.collector,
        public=PUBLIC | {asset.path for asset in assets},
        hosts=hosts,
        headers=[*STRICT, *HTTPS_ONLY] if is_tls else STRICT,
    )


class _Paths:
    """Finds the route of a path: those without a part to fill in by one look, the others as Starlette does."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._plain = {route.path: route.app for route in routes if not route.param_convertors}
        self._router = Router(routes, redirect_slashes=False, default=_no_route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        await self._plain.get(scope["path"], self._router)(scope, receive, send)


def _list_operations(operations: Sequence[Operation], state: ServerState) -> Iterable[Route]:
    paths: dict[str, dict[str, ASGIApp]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = Endpoint(operation, state)
    for path, endpoints in paths.items():
        yield Route(f"{BASE}{path}".replace("}", ":key}"), Methods(endpoints))


def _list_others(state: ServerState) -> Iterable[Route]:
    probes = Probes(state.services.node, state.is_open)
    others: dict[str, Any] = {"/livez": probes.livez, "/readyz": probes.readyz}
    others["/metrics"] = _for_viewers(probes.metrics)
    others["/openapi.json"] = serve_openapi
    for path, answer in others.items():
        yield Route(path, Methods(read_only(Plain(answer))))
    for path, (file, media_type) in FILES.items():
        yield Route(path, Methods(read_only(Page(file, media_type))))


def _list_console(assets: Sequence[Asset], sessions: SessionEndpoint) -> Iterable[Route]:
    yield Route("/", Methods(read_only(FrontPage())))
    yield Route(LOGIN, Methods({"POST": sessions.log_in}))
    yield Route(SESSION, Methods({"GET": sessions.show, "DELETE": sessions.log_out}))
    for asset in assets:
        yield Route(asset.path, Methods(read_only(asset)))


def _for_viewers(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer_viewer(request: Request) -> Response:
        request.scope[PRINCIPAL].require(Role.VIEWER)
        return await answer(request)

    return answer_viewer


async def _no_route(scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
    raise NoRouteError(f"there is no {scope['path'][:200]}; /docs lists what there is")
