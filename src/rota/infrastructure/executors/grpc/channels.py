"""One long-lived channel for each place that is called, at most so many of them.

A channel goes to addresses that the guard has judged, and to no other; the name in the config stays the authority, and
the name that a certificate is checked for. It is kept while all its addresses are still the name's, in whatever order
they are told; then another takes its place, and calls that are under way end on the old one. Nothing
is repeated behind our back: a call is sent at most once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from rota.__about__ import __version__
from rota.infrastructure.executors.grpc.call import GrpcCall
from rota.infrastructure.executors.grpc.settings import PUBLIC_TLS, GrpcSettings, TlsTarget

KEEPALIVE_MS = 310_000  # servers take more than one ping in five minutes for abuse
METADATA_BYTES = 64 * 1024  # of an answer
STANDARD_OPTIONS: Sequence[tuple[str, Any]] = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.primary_user_agent", f"rota/{__version__}"),
    ("grpc.max_metadata_size", METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", METADATA_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.min_reconnect_backoff_ms", 10_000),  # for a connection to come about
)

Address = IPv4Address | IPv6Address


class TlsError(Exception):
    """A channel that the settings do not allow, or whose files cannot be used."""


@dataclass(slots=True)
class Link:
    """A channel, and who uses it."""

    channel: grpc.aio.Channel
    addresses: frozenset[Address]
    users: int = 0
    learning: asyncio.Lock = field(default_factory=asyncio.Lock)  # one asks for descriptors, the others wait


class Channels:
    def __init__(self, settings: GrpcSettings) -> None:
        self._settings = settings
        self._links: OrderedDict[tuple[str, str], Link] = OrderedDict()
        self._replaced: list[Link] = []

    @asynccontextmanager
    async def borrow(self, call: GrpcCall, addresses: Sequence[Address]) -> AsyncIterator[Link]:
        """The channel to some of these addresses, kept while it is used. Raises `TlsError`."""
        link = self._find(call, addresses)
        if link is None:
            credentials = await self._credentials(call)
            link = self._find(call, addresses) or self._open(call, addresses, credentials=credentials)
        self._links.move_to_end(_key(call))
        link.users += 1
        try:
            yield link
        finally:
            link.users -= 1
            await self._trim()

    def find_target(self, call: GrpcCall) -> TlsTarget | None:
        """What the settings have for the call; None: it goes in the clear. Raises `TlsError`."""
        if call.tls is None:
            return None
        found = self._settings.targets.get(call.tls, TlsTarget() if call.tls == PUBLIC_TLS else None)
        if found is None:
            raise TlsError(f"executor.tls names {call.tls!r}, which is not among grpc.targets in the worker's settings")
        if not found.is_for(call.host, call.port):
            raise TlsError(f"executor.address is none of the hosts that grpc.targets.{call.tls} is for")
        return found

    async def close(self) -> None:
        links = [*self._links.values(), *self._replaced]
        self._links.clear()
        self._replaced.clear()
        for link in links:
            await link.channel.close()

    def _find(self, call: GrpcCall, addresses: Sequence[Address]) -> Link | None:
        link = self._links.get(_key(call))
        return link if link is not None and link.addresses.issubset(addresses) else None

    def _open(
        self, call: GrpcCall, addresses: Sequence[Address], *, credentials: grpc.ChannelCredentials | None
    ) -> Link:
        family = [one for one in addresses if one.version == addresses[0].version]
        place = _target(family, call.port)
        most = self._settings.max_message
        target = self.find_target(call)
        name = None if target is None else target.server_name
        options = [
            *STANDARD_OPTIONS,
            ("grpc.max_receive_message_length", most),
            ("grpc.max_send_message_length", most),
            ("grpc.default_authority", name or call.authority),
        ]
        if credentials is None:
            channel = grpc.aio.insecure_channel(place, options)
        else:
            checked = ("grpc.ssl_target_name_override", name or call.host.strip("[]"))
            channel = grpc.aio.secure_channel(place, credentials, [*options, checked])
        if (old := self._links.get(_key(call))) is not None:
            self._replaced.append(old)
        link = self._links[_key(call)] = Link(channel, frozenset(family))
        return link

    async def _credentials(self, call: GrpcCall) -> grpc.ChannelCredentials | None:
        tls = self.find_target(call)
        if tls is None:
            return None
        try:
            ca, key, cert = await asyncio.to_thread(lambda: [_read(path) for path in (tls.ca, tls.key, tls.cert)])
        except OSError as exc:
            raise TlsError(f"a file of the target {call.tls!r} in grpc.targets cannot be read: {exc}") from exc
        return grpc.ssl_channel_credentials(ca, key, cert)

    async def _trim(self) -> None:
        while (link := self._pop_surplus()) is not None:  # one by one: cancelled here, the others are still known
            await link.channel.close()

    def _pop_surplus(self) -> Link | None:
        for link in self._replaced:
            if not link.users:
                self._replaced.remove(link)
                return link
        if len(self._links) <= self._settings.max_channels:
            return None
        idle = next((key for key, link in self._links.items() if not link.users), None)
        return None if idle is None else self._links.pop(idle)


def _key(call: GrpcCall) -> tuple[str, str]:
    return call.authority, call.tls or ""


def _read(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def _target(addresses: Sequence[Address], port: int) -> str:
    """The judged addresses as a target of gRPC, which takes those of one family only."""
    version = addresses[0].version
    spelled = [f"[{address}]" if version == 6 else str(address) for address in addresses]
    return f"ipv{version}:{','.join(f'{host}:{port}' for host in spelled)}"
