"""Who we are to etcd: a token for a name and a password, until it is over or rights are changed.

To check a password takes etcd a tenth of a second of CPU. So one call asks a member for a token and the others, which
begin there in the meantime, wait for it; and a token that was refused is forgotten by those that used it, and not the
one that came after it.

A member that does not answer is left for another, where there is one: after a third of a call's time, so that there is
time to ask the others. What it was asked goes on, and should it answer late, its token is good everywhere.
"""

import asyncio
from datetime import timedelta
from functools import partial

from rota._proto.etcd import wire_pb2 as wire
from rota.infrastructure.etcd.address import EtcdAddress
from rota.infrastructure.etcd.endpoints import Endpoints, Link, NotConnectedError

HAS_LEADER = ("hasleader", "true")
AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"
Metadata = tuple[tuple[str, str], ...]


class NotLetInError(NotConnectedError):
    """The member did not answer the login in time, so nothing else was asked of it."""


class Login:
    """One client's."""

    def __init__(self, address: EtcdAddress, endpoints: Endpoints, *, within: timedelta) -> None:
        self._address = address
        self._endpoints = endpoints
        self._within = within
        self._patience = within / (3 if len(address.endpoints) > 1 else 1)
        self._token: str | None = None
        self._asking: dict[Link, asyncio.Task[str]] = {}

    async def sign(self, link: Link) -> Metadata:
        """What a call to this member says of itself. One that does not answer is left for another: `NotLetInError`."""
        if not self._address.user:
            return (HAS_LEADER,)
        token = self._token or await self._wait_for(link)
        return (HAS_LEADER, ("token", token))

    def forget(self, refused: Metadata) -> None:
        """The token of a call is over."""
        if self._token is not None and ("token", self._token) in refused:
            self._token = None

    async def close(self) -> None:
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _wait_for(self, link: Link) -> str:
        asking = self._asking.get(link) or self._begin(link)
        try:
            await asyncio.wait([asking], timeout=self._patience.total_seconds())
        except asyncio.CancelledError:  # as by the deadline of the call
            self._endpoints.skip(link)
            raise
        if asking.done() and not asking.cancelled():
            return asking.result()
        self._endpoints.skip(link)
        raise NotLetInError("no answer to the login")

    def _begin(self, link: Link) -> "asyncio.Task[str]":
        asking = self._asking[link] = asyncio.create_task(self._ask(link))
        asking.add_done_callback(partial(self._end, link))
        return asking

    def _end(self, link: Link, asked: "asyncio.Task[str]") -> None:
        del self._asking[link]
        if not asked.cancelled():
            asked.exception()  # perhaps nobody waits for it any more, which is no defect

    async def _ask(self, link: Link) -> str:
        asked = wire.AuthenticateRequest(name=self._address.user, password=self._address.password)
        call = link.unary(AUTHENTICATE, wire.AuthenticateResponse)
        try:
            async with asyncio.timeout(self._within.total_seconds()):
                self._token = token = str((await call(asked, metadata=(HAS_LEADER,))).token)
        except TimeoutError as exc:
            raise NotLetInError("no answer to the login") from exc
        return token
