"""`/login` and `/session`: into the console and out of it, and who is there.

They are no operations of the API: programs send their token with every request and have no use for them.
"""

from datetime import datetime

import msgspec
from starlette.types import Receive, Scope, Send

from rota.__about__ import __version__
from rota.domain.access import Principal
from rota.domain.errors import InvalidError, NotFoundError, UnauthenticatedError
from rota.domain.session import SESSION_LIFE, Session
from rota.interfaces.http.admission import FOREIGN, FROM_CONSOLE, Admission
from rota.interfaces.http.body import check_media_type, find_header, parse_body, read_body
from rota.interfaces.http.gate import PRINCIPAL, PROOF
from rota.interfaces.http.limiter import RateLimiter
from rota.interfaces.http.state import ServerState
from rota.wire.base import Answer, Request

LOGIN, SESSION = "/login", "/session"
MOST_BYTES = 4096
USED = "this link was used, or is of an earlier start; log in with the token that stands beside it"


class LogIn(Request):
    """Exactly one: the secret of a token, or the code of a link."""

    token: str = ""
    code: str = ""


class LoggedIn(Answer):
    """Whose session it is."""

    name: str
    token_id: str
    role: str
    tenant: str
    version: str
    expires_at: datetime


class SessionEndpoint:
    """Begins and ends sessions. Logging in is public and judged here: whoever does has nothing to show yet."""

    def __init__(self, state: ServerState, limiter: RateLimiter, *, is_secure: bool) -> None:
        self._state = state
        self._admission = Admission(state.services.tokens, limiter)
        self._flags = f"HttpOnly; SameSite=Strict{'; Secure' if is_secure else ''}"

    async def log_in(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        if find_header(scope, FROM_CONSOLE) is None:  # or another site could log its visitor in as somebody else
            raise UnauthenticatedError(FOREIGN)
        check_media_type(scope)
        with self._state.holding() as count:
            raw = await read_body(scope, receive, most=MOST_BYTES, count=count)
        principal = await self._admit(parse_body(raw, LogIn), scope)
        session = self._state.sessions.open(principal)
        await self._answer(_describe(principal, session), send, cookie=self._spell(session.text))

    async def _admit(self, given: LogIn, scope: Scope) -> Principal:
        client = scope.get("client")
        address = client[0] if client else ""
        if bool(given.token) == bool(given.code):
            raise InvalidError("token", "is what to log in with; send it, or the code of a link")
        if given.token:
            return await self._admission.admit(given.token, address)
        token_id = self._state.codes.redeem(given.code)
        if token_id is None:
            self._admission.limiter.take(f"address {address}")
            raise UnauthenticatedError(USED)
        return await self._state.services.tokens.readmit(token_id)

    async def show(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        session = self._state.sessions.find(scope[PROOF])
        if session is None:  # a program with a token
            raise NotFoundError("session", "of a token")
        await self._answer(_describe(scope[PRINCIPAL], session), send)

    async def log_out(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        await self._answer(None, send, cookie=self._spell(""))

    def _spell(self, text: str) -> str:
        """Without a path: a browser then takes the folder of this address, also behind a proxy that adds one."""
        life = int(SESSION_LIFE.total_seconds()) if text else 0
        return f"{self._state.sessions.cookie}={text}; Max-Age={life}; {self._flags}"

    async def _answer(self, body: LoggedIn | None, send: Send, *, cookie: str | None = None) -> None:
        headers = [(b"content-type", b"application/json")]
        if cookie is not None:
            headers.append((b"set-cookie", cookie.encode()))
        await send({"type": "http.response.start", "status": 204 if body is None else 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if body is None else msgspec.json.encode(body)})


def _describe(principal: Principal, session: Session) -> LoggedIn:
    return LoggedIn(
        name=principal.name,
        token_id=principal.token_id,
        role=principal.role,
        tenant=principal.tenant_id,
        version=__version__,
        expires_at=session.until,
    )
