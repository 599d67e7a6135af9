"""Sessions of the console: a browser shows a token once, and a signed session from then on.

Nothing of a session is kept on the server, so any node takes what another one gave. A session is good while its token
is, and ends with it within the time of `tokens.KEEP`.
"""

from rota.application.node import Node
from rota.application.tokens import Tokens
from rota.domain.access import Principal, find_token_id
from rota.domain.errors import UnauthenticatedError
from rota.domain.session import Session, find_session, name_cookie, open_session

OVER = "the session is over; log in again with a token"


class Sessions:
    def __init__(self, node: Node, tokens: Tokens) -> None:
        self._node = node
        self._tokens = tokens
        self.cookie = name_cookie(node.callback_key)

    def open(self, principal: Principal) -> Session:
        """A session for whoever has just shown the token."""
        return open_session(self._node.callback_key, principal.token_id, at=self._node.time.now())

    def find(self, text: str) -> Session | None:
        """The session, if it is one of ours and not over; whether its token is still good is not asked."""
        return find_session(self._node.callback_key, text, at=self._node.time.now())

    async def authenticate(self, proof: str) -> Principal:
        """Whoever shows the secret of a token, or a session. Raises `UnauthenticatedError`."""
        if find_token_id(proof) is not None:
            return await self._tokens.authenticate(proof)
        session = self.find(proof)
        if session is None:
            raise UnauthenticatedError(OVER)
        return await self._tokens.readmit(session.token_id)
