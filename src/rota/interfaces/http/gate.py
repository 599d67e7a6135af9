"""In front of every route: who may come in, at which pace, and what every answer carries.

Everything is denied unless it is said to be public, so that a route which nobody thought of is closed. The order: the
size of path and headers, the Host, the token, the rate. What a role may do is the operation's own word.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.application import metrics
from rota.application.ports.metrics import MetricsCollector
from rota.application.sessions import Sessions
from rota.application.tokens import Tokens
from rota.domain.access import Principal, Role
from rota.domain.callback import API_BASE, verify_link
from rota.domain.errors import DeniedError, RateLimitedError, RotaError, UnauthenticatedError
from rota.interfaces.http.admission import FROM_CONSOLE, Admission, read_secret, read_session
from rota.interfaces.http.limiter import RateLimiter
from rota.interfaces.http.problems import problem_response
from rota.interfaces.operations.errors import (
    AddressTooLongError,
    HeadersTooLargeError,
    HostError,
    RequestError,
    status_for,
)

MOST_ADDRESS_BYTES = 8 * 1024  # of path and query
MOST_HEADER_BYTES = 16 * 1024
MOST_HEADERS = 100
LONGEST_LOGGED_PATH = 200
PRINCIPAL, PROOF = "rota.principal", "rota.proof"  # the proof: what the token or the session reads
CALLBACK = re.compile(rf"{API_BASE}/tasks/(?P<id>[^/:]+)/attempts/(?P<attempt>[^/:.]+\.[^/:]+)(?P<verb>:[a-z]+)?")
WHO = frozenset({b"authorization", b"host", b"cookie", FROM_CONSOLE})  # the headers that say who asks for whom
WRONG_LINK = "the signature of this link does not fit; use Rota-Callback as it came, with a verb behind it"
BARE_LINK = "this link lacks what to do; append :complete, :fail, :heartbeat or :progress to it"
LINK_PROOF = re.compile(r"(attempts/[^/.]*)\..*?(:[a-z]{1,20})?$", re.DOTALL | re.IGNORECASE)  # also in a link misspelt
STRICT: Sequence[tuple[bytes, bytes]] = (  # names in lower case, as ASGI has them
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
HTTPS_ONLY = ((b"strict-transport-security", b"max-age=31536000"),)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Wraps the routes."""

    app: ASGIApp
    tokens: Tokens
    sessions: Sessions
    limiter: RateLimiter
    collector: MetricsCollector
    callback_key: bytes = field(repr=False)  # that the links of attempts are signed with
    public: Collection[str]  # paths that need no token
    hosts: Collection[str] | None = None  # names that this server answers to; None: any
    headers: Sequence[tuple[bytes, bytes]] = STRICT

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        answer = Answer(send, self.headers)
        try:
            await self._admit(scope)
            await self.app(scope, receive, answer.send)
        except RotaError as error:
            self._note(error, scope)
            await answer.tell(error, scope, receive=receive)
        except Exception as error:
            log.exception("api.failed", method=scope["method"], path=_path(scope), error=str(error))
            await answer.tell(RotaError("internal"), scope, receive=receive)

    async def _admit(self, scope: Scope) -> None:
        found = _scan(scope)
        try:
            self._check_host(found.get(b"host", [b""])[-1])
        except HostError:
            self.limiter.take(f"address {_address(scope)}")
            raise
        if scope["path"] in self.public:
            return
        if b"authorization" not in found and (link := CALLBACK.fullmatch(scope["path"])) is not None:
            scope[PRINCIPAL], scope[PROOF] = self._admit_link(link, f"address {_address(scope)}"), ""
            return
        admission = Admission(self.tokens, self.limiter)
        if b"authorization" not in found and (session := read_session(found, self.sessions.cookie)) is not None:
            scope[PRINCIPAL] = await admission.readmit(self.sessions.find(session), _address(scope))
            scope[PROOF] = session
            return
        secret = read_secret([given.decode("latin-1") for given in found.get(b"authorization", [])])
        scope[PRINCIPAL], scope[PROOF] = await admission.admit(secret, _address(scope)), secret

    def _admit_link(self, link: "re.Match[str]", address: str) -> Principal:
        """Whoever has the link of an attempt may speak for it: the path is all that this principal is good for."""
        attempt = verify_link(self.callback_key, link["id"], attempt=link["attempt"]) if link["verb"] else None
        if attempt is None:
            self.limiter.take(address)
            raise UnauthenticatedError(WRONG_LINK if link["verb"] else BARE_LINK)
        self.limiter.take(f"attempt {attempt.task_id}.{attempt.number}")
        return Principal(token_id="", name="callback", tenant_id=attempt.tenant_id, role=Role.OPERATOR)

    def _check_host(self, given: bytes) -> None:
        if self.hosts is None:
            return
        name = host_name(given)
        if name not in self.hosts:
            raise HostError(
                f"this server does not answer to {name[:100]!r}; add it to the setting api.hosts if it should"
            )

    def _note(self, error: RotaError, scope: Scope) -> None:
        """Who was turned away. A flood of them fills no log: those beyond the rate are only counted."""
        if isinstance(error, UnauthenticatedError | DeniedError | RateLimitedError | HostError):
            self.collector.add(metrics.HTTP_DENIED, error.code)
        if isinstance(error, UnauthenticatedError | DeniedError | HostError):
            principal = scope.get(PRINCIPAL)
            log.warning(
                "api.denied",
                code=error.code,
                method=scope["method"],
                path=_path(scope),
                address=_address(scope),
                token_id=None if principal is None else principal.token_id,
            )
        elif status_for(error) >= 500 and not isinstance(error, RequestError):
            log.warning("api.unavailable", path=_path(scope), code=error.code, error=str(error))


class Answer:
    """The way back to the client: every answer gets the strict headers."""

    def __init__(self, send: Send, headers: Sequence[tuple[bytes, bytes]] = STRICT) -> None:
        self._send = send
        self._headers = headers
        self._is_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._is_begun = True
            own = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(pair for pair in self._headers if pair[0] not in own)]
        await self._send(message)

    async def tell(self, error: RotaError, scope: Scope, *, receive: Receive) -> None:
        """An answer that has begun cannot become another one: it breaks off, which a client notices."""
        if not self._is_begun:
            await problem_response(error)(scope, receive, self.send)


@lru_cache(maxsize=64)  # every client says the same again and again
def host_name(given: bytes) -> str:
    """What a header `Host` names, without the port."""
    host = given.decode("latin-1").lower()
    name, _, port = host.rpartition(":")
    return name if port.isdigit() else host


def _scan(scope: Scope) -> dict[bytes, list[bytes]]:
    """The headers that say who asks for whom, once it is known that nothing is too large."""
    if len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"]) > MOST_ADDRESS_BYTES:
        raise AddressTooLongError(f"path and query have more than {MOST_ADDRESS_BYTES} bytes")
    size = 0
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        if name in WHO:
            found.setdefault(name, []).append(value)
    if size > MOST_HEADER_BYTES or len(scope["headers"]) > MOST_HEADERS:
        raise HeadersTooLargeError(f"more than {MOST_HEADER_BYTES} bytes or {MOST_HEADERS} headers")
    return found


def _path(scope: Scope) -> str:
    """The path, for the log. The proof in the link of an attempt is as good as a password: it is left out."""
    return LINK_PROOF.sub(r"\1\2", str(scope["path"]))[:LONGEST_LOGGED_PATH]


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""
