"""Who comes in, by whichever interface: a good token, within the rate."""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.application.tokens import Tokens
from rota.domain.access import Principal, find_token_id
from rota.domain.errors import UnauthenticatedError
from rota.interfaces.http.limiter import RateLimiter


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


def read_secret(given: Sequence[str]) -> str:
    """What was sent as a token; nothing that is one, where that is not clear."""
    scheme, _, secret = (given[0] if len(given) == 1 else "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""
