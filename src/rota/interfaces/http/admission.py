"""Who comes in, by whichever interface: a good token, within the rate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rota.application.sessions import OVER
from rota.application.tokens import Tokens
from rota.domain.access import Principal, find_token_id
from rota.domain.errors import UnauthenticatedError
from rota.domain.session import Session
from rota.interfaces.http.limiter import RateLimiter

# The console sends it with every request. Another site cannot: a browser would ask first whether it may (CORS), and is
# never told yes. SameSite alone would let in pages of other ports of the same host.
FROM_CONSOLE = b"x-rota-console"
FOREIGN = "a session counts only from the console itself, which sends X-Rota-Console; programs use a token"


@dataclass(frozen=True, slots=True)
class Admission:
    tokens: Tokens
    limiter: RateLimiter

    async def admit(self, secret: str, address: str) -> Principal:
        """Whoever has this secret. Raises `UnauthenticatedError` and `RateLimitedError`."""
        token_id = find_token_id(secret)
        is_newcomer = token_id is not None and not self.limiter.knows(f"token {token_id}")
        if is_newcomer:
            # It may be a guess, for which the store is asked. Apart, so that no other refusal keeps a good token out.
            self.limiter.take(f"newcomers from {address}")
        try:
            principal = await self.tokens.authenticate(secret)
        except UnauthenticatedError:
            if not is_newcomer:  # who is counted already
                self.limiter.take(f"address {address}")  # whoever guesses is told to slow down
            raise
        self.limiter.take(f"token {principal.token_id}")
        return principal

    async def readmit(self, session: Session | None, address: str) -> Principal:
        """Whoever has this session; none, if it was not a good one. Raises as `admit` does."""
        if session is None:
            self.limiter.take(f"address {address}")
            raise UnauthenticatedError(OVER)
        principal = await self.tokens.readmit(session.token_id)
        self.limiter.take(f"token {principal.token_id}")
        return principal


def read_session(found: Mapping[bytes, Sequence[bytes]], cookie: str) -> str | None:
    """The session among the cookies, or None. One that comes without the mark of the console is refused."""
    named = f"{cookie}=".encode()
    for header in found.get(b"cookie", ()):
        for part in header.split(b";"):
            if part.strip().startswith(named):
                if FROM_CONSOLE not in found:
                    raise UnauthenticatedError(FOREIGN)
                return part.strip().removeprefix(named).decode("latin-1")
    return None


def read_secret(given: Sequence[str]) -> str:
    """What was sent as a token; nothing that is one, where that is not clear."""
    scheme, _, secret = (given[0] if len(given) == 1 else "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""
