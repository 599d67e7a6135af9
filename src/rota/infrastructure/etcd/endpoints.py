"""The members of an etcd cluster, a channel to each, and which one is asked.

gRPC's own way of choosing does not notice a member that is connected and cut off from the others, so we choose: the
member asked last while all is well, the next one that is connected after one failed.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from rota.__about__ import __version__
from rota.domain.errors import ConfigError
from rota.infrastructure.etcd.address import EtcdAddress
from rota.infrastructure.etcd.doubts import Member

OPTIONS: Sequence[tuple[str, Any]] = (
    ("grpc.enable_retries", 0),  # a write whose answer was lost must be told, not sent again
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.primary_user_agent", f"rota/{__version__}"),
    ("grpc.max_receive_message_length", -1),  # we bound what we ask for
    ("grpc.keepalive_time_ms", 10_000),  # etcd allows one ping in five seconds
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),  # or closing one client's channel would leave its connection to others
)
READY = grpc.ChannelConnectivity.READY
CONNECTED_WITHIN = 0.9  # of the deadline of a call, so that its caller still hears what was missing


class NotConnectedError(Exception):
    """No member could be connected to in time, so nothing was asked."""


class Link(Member):
    """A channel to one member, with the methods that were called on it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        super().__init__()
        self.channel = channel
        self._methods: dict[str, Any] = {}

    def unary(self, path: str, answer: Any) -> Any:
        if path not in self._methods:
            self._methods[path] = self.channel.unary_unary(
                path, request_serializer=_to_bytes, response_deserializer=answer.FromString
            )
        return self._methods[path]

    def stream(self, path: str, answer: Any) -> Any:
        if path not in self._methods:
            self._methods[path] = self.channel.stream_stream(
                path, request_serializer=_to_bytes, response_deserializer=answer.FromString
            )
        return self._methods[path]


class Endpoints:
    """Connects with the first call."""

    def __init__(self, address: EtcdAddress) -> None:
        self._address = address
        self._links: list[Link] = []
        self._current = 0

    async def pick(self, within: timedelta) -> Link:
        """A member that is connected; `NotConnectedError` when none is well before the time is over."""
        links = self._links or self._open()
        for offset in range(len(links)):
            place = (self._current + offset) % len(links)
            if links[place].channel.get_state(try_to_connect=True) is READY:
                self._current = place
                return links[place]
        return await self._await_one(within * CONNECTED_WITHIN)

    def skip(self, link: Link) -> None:
        """This member did not answer: ask another one next."""
        if self._links and self._links[self._current] is link:
            self._current = (self._current + 1) % len(self._links)

    async def close(self) -> None:
        links, self._links = self._links, []
        for link in links:
            await link.channel.close()

    async def _await_one(self, within: timedelta) -> Link:
        waits = {asyncio.ensure_future(link.channel.channel_ready()): link for link in self._links}
        try:
            done, _ = await asyncio.wait(waits, timeout=within.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if not done:
            way = " by TLS" if self._address.has_tls else ""
            raise NotConnectedError(f"cannot connect to {', '.join(self._address.endpoints)}{way}")
        return waits[done.pop()]

    def _open(self) -> list[Link]:
        credentials = self._credentials()
        for endpoint in self._address.endpoints:
            if credentials is None:
                channel = grpc.aio.insecure_channel(endpoint, OPTIONS)
            else:
                channel = grpc.aio.secure_channel(endpoint, credentials, OPTIONS)
            self._links.append(Link(channel))
        return self._links

    def _credentials(self) -> grpc.ChannelCredentials | None:
        address = self._address
        if not address.has_tls:
            return None
        try:
            ca, key, cert = (_read(path) for path in (address.ca, address.key, address.cert))
        except OSError as exc:
            raise ConfigError(f"etcd url: a certificate cannot be read: {exc}", fix="check ca, cert and key") from exc
        return grpc.ssl_channel_credentials(ca, key, cert)


def _read(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def _to_bytes(message: Any) -> bytes:
    """A transaction is bytes already."""
    packed: bytes = message if isinstance(message, bytes) else message.SerializeToString()
    return packed
