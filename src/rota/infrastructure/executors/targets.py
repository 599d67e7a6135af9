"""Where executors may connect to: a guard against requests that are aimed at the network they are made from.

Whoever may define a task config chooses a host; the worker stands in a network where that host could be a database, a
router or the machine's own metadata service. So a name is resolved first, every address is judged, and the connection
goes to an address that was judged: a name that answers differently a moment later changes nothing.

An address is public if it is global unicast and so is the IPv4 address it may carry inside (mapped, translated, NAT64,
6to4, Teredo). Everything else needs an entry in the allow-list: a host (`crm.internal`), a host with a port
(`crm.internal:8080`), all hosts under a name (`*.svc.internal`) or a network (`10.0.0.0/8`). What clouds tell a machine
about itself, its credentials too, is opened only by an entry for that one address or host, never by a network around
it or a suffix; Rota's own servers by none.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from rota.domain.errors import InvalidError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Lookup = Callable[[str, int], Awaitable[Iterable[str]]]  # a host and port to the texts of its addresses

MOST_LOOKUPS = 16  # at once
MAX_HOST = 253  # characters
_BRACKETED = re.compile(r"\[(?P<address>[0-9a-f.]*:[0-9a-f:.]*)\](:(?P<port>[0-9]+))?")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")

# What `is_global` of some Python releases lets pass, or what belongs to somebody all the same.
_CLOSED_NETWORKS: Sequence[Network] = [
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "64:ff9b:1::/48",  # NAT64 of a local network: where the IPv4 address stands is that network's choice
        "fec0::/10",
        "ff00::/8",
        "100::/64",
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
    )
]
_METADATA: Sequence[Network] = [
    ip_network(text)
    for text in (
        "169.254.0.0/16",  # most clouds, at several addresses of it
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::/32",
        "fd20:ce::254",
        "fe80::a9fe:a9fe",
    )
]
_EMBEDDING: Sequence[tuple[IPv6Network, int]] = [  # the network, and by how many bits the IPv4 address is shifted
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("::ffff:0:0:0/96"), 0),  # translated
    (IPv6Network("::/96"), 0),  # compatible
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
]
_TEREDO = IPv6Network("2001::/32")


class TargetRefusedError(Exception):
    """The target may not be reached from here. Says the same for every address, so that it tells nothing of them."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port} is not a public address, and http.allow does not list it")
        self.host = host
        self.port = port


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """One line of the allow-list: a network, or hosts and perhaps a port."""

    network: Network | None = None
    host: str = ""
    covers_below: bool = False  # `*.suffix`
    port: int | None = None

    def names(self, host: str, port: int) -> bool:
        """Whether it lists this host by its name."""
        if not self.host or self.port not in (None, port):
            return False
        return host.endswith(f".{self.host}") if self.covers_below else host == self.host

    def contains(self, address: Address) -> bool:
        """Whether it lists this address by its network."""
        network = self.network
        if network is None or network.version != address.version or address not in network:
            return False
        return not _is_metadata(address) or network.prefixlen == network.max_prefixlen


def parse_allow(field: str, text: str) -> AllowEntry:
    """An entry of the allow-list, or `InvalidError`."""
    written = text.strip().lower()
    host, port = _split_port(written)
    with suppress(ValueError):
        return AllowEntry(network=ip_network(host if port is None else written, strict=False))
    covers_below = host.startswith("*.")
    name = host.removeprefix("*.").rstrip(".")
    literal = _find_literal(name)
    is_port = port is None or (port.isascii() and port.isdigit() and 0 < int(port) < 65536)
    if not is_port or len(name) > MAX_HOST or (literal is None and not _HOST.fullmatch(name)):
        raise InvalidError(field, f"{text[:80]!r} is no host, host:port, *.suffix or network such as 10.0.0.0/8")
    return AllowEntry(
        host=name if literal is None else str(literal),
        covers_below=covers_below,
        port=None if port is None else int(port),
    )


def _split_port(written: str) -> tuple[str, str | None]:
    if bracketed := _BRACKETED.fullmatch(written):
        return bracketed["address"], bracketed["port"]
    host, colon, port = written.rpartition(":")
    return (host, port) if colon else (port, None)


def unwrap(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for; any other address is itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TEREDO:
        return IPv4Address(~int(address) & 0xFFFFFFFF)  # the client's, bit by bit inverted
    for network, shift in _EMBEDDING:
        if address in network and int(address) > 1:  # ::1 and :: are themselves
            return IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return address


def _is_metadata(inner: Address) -> bool:
    return any(inner.version == network.version and inner in network for network in _METADATA)


def is_public(address: Address) -> bool:
    """Whether the address, and what it may carry inside, is anybody's to connect to."""
    inner = unwrap(address)
    if isinstance(inner, IPv6Address) and inner.scope_id is not None:
        return False
    if _is_metadata(inner) or any(
        inner.version == network.version and inner in network for network in _CLOSED_NETWORKS
    ):
        return False
    return inner.is_global and not inner.is_multicast and not inner.is_reserved


@cache
def _lookup_threads() -> ThreadPoolExecutor:
    """For lookups alone. One goes on after its caller gave up: a name server that hangs holds these and no others."""
    return ThreadPoolExecutor(MOST_LOOKUPS, thread_name_prefix="rota-lookup")


async def system_lookup(host: str, port: int) -> list[str]:
    """What the machine's own resolver says; `OSError` when it knows no address."""
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_lookup_threads(), look_up)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class TargetGuard:
    """Resolves hosts to addresses that may be connected to."""

    def __init__(
        self,
        allow: Iterable[AllowEntry] = (),
        *,
        closed: Iterable[tuple[str, int]] = (),
        lookup: Lookup = system_lookup,
    ) -> None:
        self._allow = tuple(allow)
        self._closed = tuple((_tidy(host), port) for host, port in closed)  # Rota's own servers
        self._lookup = lookup

    async def resolve(self, host: str, port: int) -> list[Address]:
        """The addresses to connect to, in the order of the resolver. Asked anew for every connection.

        Raises `TargetRefusedError` when the target, or any of its addresses, may not be reached, and `OSError` when the
        name has none. The caller has the deadline: it cancels this call.
        """
        name = _tidy(host)
        literal = self.check_literal(name, port)
        if literal is not None:
            await self._check_closed(name, [literal], port=port)
            return [literal]
        try:
            addresses = [ip_address(text) for text in await self._lookup(name, port)]
        except UnicodeError as exc:  # a name that no resolver could be asked for
            raise TargetRefusedError(host[:MAX_HOST], port) from exc
        if not addresses:
            raise OSError(f"no address is known for {name}")
        if not all(self._may_reach(name, port, address=address) for address in addresses):
            raise TargetRefusedError(name, port)
        await self._check_closed(name, addresses, port=port)
        return addresses

    def check_literal(self, host: str, port: int) -> Address | None:
        """The address that the host is, if it is one and may be reached; None for a name, which is to be resolved.

        Quick, for clients that do not resolve what is an address already. Numbers that are no address in its usual
        spelling (127.1, 2130706433) are refused: such clients take them for one and ask no resolver.
        """
        name = _tidy(host)
        literal = _find_literal(name)
        is_refused = _is_numeric(name) if literal is None else not self._may_reach(str(literal), port, address=literal)
        if is_refused:
            raise TargetRefusedError(host, port)
        return literal

    def _may_reach(self, name: str, port: int, *, address: Address) -> bool:
        if is_public(address):
            return True
        inner = unwrap(address)
        may_be_below = not _is_metadata(inner)
        return any(
            entry.contains(inner) or (entry.names(name, port) and (may_be_below or not entry.covers_below))
            for entry in self._allow
        )

    async def _check_closed(self, name: str, addresses: Sequence[Address], *, port: int) -> None:
        """Nothing of Rota's own is a target, whatever it is called."""
        for host, closed_port in self._closed:
            if closed_port != port:
                continue
            theirs = await self._find_addresses(host, port)
            is_here = any(map(_is_here, theirs))  # then every address of this machine itself leads there
            for inner in map(unwrap, addresses):
                if host == name or inner in theirs or (is_here and _is_here(inner)):
                    raise TargetRefusedError(name, port)

    async def _find_addresses(self, host: str, port: int) -> set[Address]:
        try:
            return {unwrap(ip_address(text)) for text in await self._lookup(host, port)}
        except (OSError, UnicodeError):
            return set()  # a server of ours that has no address now is not what others resolved


def _tidy(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _find_literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None  # also 0x7f.1: a resolver says what it is, and that is judged


def _is_numeric(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


def _is_here(address: Address) -> bool:
    return address.is_loopback or address.is_unspecified
