"""Who we are to etcd: a token for a name and a password, until it is over or rights are changed.

To check a password takes etcd a tenth of a second of CPU. So one call asks for a token and the others, which begin in
the meantime, wait for it; and a token that was refused is forgotten by those that used it, and not the one that came
after it.
"""

import asyncio

from rota._proto.etcd import wire_pb2 as wire
from rota.infrastructure.etcd.address import EtcdAddress
from rota.infrastructure.etcd.endpoints import Link

HAS_LEADER = ("hasleader", "true")
AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"
Metadata = tuple[tuple[str, str], ...]


class Login:
    """One client's."""

    def __init__(self, address: EtcdAddress) -> None:
        self._address = address
        self._token: str | None = None
        self._asking = asyncio.Lock()

    async def sign(self, link: Link) -> Metadata:
        """What a call to this member says of itself."""
        if not self._address.user:
            return (HAS_LEADER,)
        token = self._token or await self._ask(link)
        return (HAS_LEADER, ("token", token))

    def forget(self, refused: Metadata) -> None:
        """The token of a call is over."""
        if self._token is not None and ("token", self._token) in refused:
            self._token = None

    async def _ask(self, link: Link) -> str:
        async with self._asking:
            if self._token is None:
                asked = wire.AuthenticateRequest(name=self._address.user, password=self._address.password)
                call = link.unary(AUTHENTICATE, wire.AuthenticateResponse)
                self._token = str((await call(asked, metadata=(HAS_LEADER,))).token)
            return self._token
