"""Codes of links into the console that are good once, on the node that made them: `rota dev` prints one."""

import hmac
import secrets

MOST_CODES = 16  # that wait to be used; beyond it the oldest is no longer good


class OneTimeCodes:
    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}  # the id of the token that each stands for

    def make(self, token_id: str) -> str:
        """A code that stands for this token."""
        code = secrets.token_urlsafe(24)
        self._waiting[code] = token_id
        if len(self._waiting) > MOST_CODES:
            del self._waiting[next(iter(self._waiting))]
        return code

    def redeem(self, given: str) -> str | None:
        """The token that a code stands for; None the second time, and for what is no code."""
        for code in self._waiting:
            if hmac.compare_digest(code.encode(), given.encode()):
                return self._waiting.pop(code)
        return None
