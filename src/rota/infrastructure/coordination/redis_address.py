"""Where the servers of one Redis are, and as whom to talk to them: what `redis+sentinel://` and `redis+cluster://` say.

A URL may hold passwords, so an error quotes nothing of it but names that we know.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from rota.domain.errors import ConfigError
from rota.infrastructure.server_urls import SPELLED, split_url

NODE_PORT = 6379
SENTINEL_PORT = 26379
MOST_SERVERS = 32  # that a URL names
FILES = ("ca", "cert", "key")
FOR_SENTINELS = "sentinel_"  # begins the options that are for Sentinels alone
LOGIN = ("sentinel_user", "sentinel_password", "sentinel_tls")
TRUTHS = {"true": True, "false": False}


class Topology(StrEnum):
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


EXAMPLES = {
    Topology.SENTINEL: "redis+sentinel://host-1:26379,host-2:26379,host-3:26379/mymaster",
    Topology.CLUSTER: "redis+cluster://host-1:6379,host-2:6379,host-3:6379",
}


class Server(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """As whom to talk to servers of one kind, and whether nobody may listen."""

    user: str = ""
    password: str = field(default="", repr=False)
    has_tls: bool = False
    ca: str | None = None  # files in PEM; None: what the system trusts
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAddress:
    """Several servers that are one Redis together."""

    topology: Topology
    servers: tuple[Server, ...]  # the Sentinels, or some nodes of the cluster
    nodes: Login  # of the servers that hold data
    sentinels: Login = Login()
    service: str = ""  # what Sentinels call the servers that they watch
    database: int = 0


def find_topology(url: str) -> Topology | None:
    """Which kind of several servers a URL names; None: it names one, which is for redis-py to read."""
    _, _, kind = url.partition("://")[0].lower().partition("+")
    return next((topology for topology in Topology if topology.value == kind), None)


def parse_address(url: str) -> RedisAddress:
    """Read one of these; with `rediss+` in place of `redis+`, TLS is used.

    `redis+sentinel://[user:password@]sentinel[:port][,…]/service[/database][?options]`
    `redis+cluster://[user:password@]node[:port][,…][?options]`
    """
    topology = find_topology(url)
    if topology is None:
        raise ConfigError("redis url: names one server", fix=EXAMPLES[Topology.SENTINEL])
    parts = split_url(url, named="redis url", fix=EXAMPLES[topology])
    if "@" in parts.path + parts.fragment:
        raise ConfigError(f"redis url: has an @ behind its servers; {SPELLED}", fix=EXAMPLES[topology])
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    _check_options(options, topology, has_at="@" in parts.query)
    nodes = _read_nodes(parts, options)
    port = SENTINEL_PORT if topology is Topology.SENTINEL else NODE_PORT
    servers = tuple(_list_servers(parts, port=port, example=EXAMPLES[topology]))
    if topology is Topology.CLUSTER:
        if parts.path.strip("/") not in ("", "0"):
            raise ConfigError("redis url: a cluster has the database 0 alone", fix=EXAMPLES[topology])
        return RedisAddress(topology=topology, servers=servers, nodes=nodes)
    service, database = _read_path(parts)
    sentinels = _read_sentinels(nodes, options)
    return RedisAddress(
        topology=topology, servers=servers, nodes=nodes, sentinels=sentinels, service=service, database=database
    )


def _list_servers(parts: SplitResult, *, port: int, example: str) -> Iterator[Server]:
    named = parts.netloc.rpartition("@")[2].split(",")
    if len(named) > MOST_SERVERS:
        raise ConfigError(f"redis url: {len(named)} servers are more than {MOST_SERVERS}", fix="name some of them")
    for number, server in enumerate(named, start=1):
        try:
            one = urlsplit(f"//{server}")
            host, own_port = one.hostname, one.port
        except ValueError as exc:
            raise ConfigError(f"redis url: server {number} is not host:port; {SPELLED}", fix=example) from exc
        if not host:
            raise ConfigError(f"redis url: server {number} has no name", fix=example)
        yield Server(host, own_port or port)


def _read_path(parts: SplitResult) -> tuple[str, int]:
    example = EXAMPLES[Topology.SENTINEL]
    service, _, database = unquote(parts.path).strip("/").partition("/")
    if not service:
        raise ConfigError("redis url: the name that Sentinels give the service is missing", fix=example)
    if database and not (database.isascii() and database.isdigit()):
        raise ConfigError("redis url: what follows the name of the service is no number", fix=f"{example}/0")
    return service, int(database or 0)


def _check_options(options: Mapping[str, str], topology: Topology, *, has_at: bool) -> None:
    known = list(FILES)
    if topology is Topology.SENTINEL:
        known += [*LOGIN, *(FOR_SENTINELS + name for name in FILES)]
    if unknown := sorted(options.keys() - set(known)):
        which = f"an option is not known; {SPELLED}" if has_at else f"the option {unknown[0]!r} is not known"
        raise ConfigError(f"redis url: {which}", fix=f"one of {', '.join(known)}")


def _read_nodes(parts: SplitResult, options: Mapping[str, str]) -> Login:
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    has_tls = parts.scheme.lower().startswith("rediss")
    login = Login(user=unquote(user), password=unquote(password), has_tls=has_tls)
    files = {name: options[name] for name in FILES if name in options}
    return _with_files(login, files, prefix="")


def _read_sentinels(nodes: Login, options: Mapping[str, str]) -> Login:
    """They have users of their own; TLS and its files are those of the nodes where nothing else is said."""
    said = options.get("sentinel_tls", str(nodes.has_tls).lower())
    if said not in TRUTHS:
        raise ConfigError("redis url: sentinel_tls is neither true nor false", fix="sentinel_tls=true")
    login = Login(
        user=options.get("sentinel_user", ""), password=options.get("sentinel_password", ""), has_tls=TRUTHS[said]
    )
    own = {name: options[FOR_SENTINELS + name] for name in FILES if FOR_SENTINELS + name in options}
    if login.has_tls and not own:
        return replace(login, ca=nodes.ca, cert=nodes.cert, key=nodes.key)
    return _with_files(login, own, prefix=FOR_SENTINELS)


def _with_files(login: Login, files: Mapping[str, str], *, prefix: str) -> Login:
    if files and not login.has_tls:
        fix = "sentinel_tls=true" if prefix else "rediss+… in place of redis+…"
        raise ConfigError("redis url: certificates are for TLS", fix=fix)
    if ("cert" in files) != ("key" in files):
        raise ConfigError(f"redis url: {prefix}cert and {prefix}key go together", fix="give both, or none")
    for name, path in files.items():
        if not Path(path).is_file():
            raise ConfigError(f"redis url: {prefix}{name}: there is no file {path}", fix="the path of a PEM file")
    return replace(login, ca=files.get("ca"), cert=files.get("cert"), key=files.get("key"))
