"""Where an etcd is, and as whom to talk to it: what `etcd://` and `etcds://` say.

A URL may hold a password, so an error quotes nothing of it that may be part of one.
"""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from rota.domain.errors import ConfigError
from rota.infrastructure.server_urls import SPELLED, split_url

PORT = 2379
EXAMPLE = "etcd://localhost:2379"
FILES = ("ca", "cert", "key")


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """The members of one cluster, all of which hold the same."""

    endpoints: tuple[str, ...]  # host:port
    prefix: str = ""  # of all keys, if the URL has one
    user: str = ""
    password: str = field(default="", repr=False)
    has_tls: bool = False
    ca: str | None = None  # files in PEM; None: what the system trusts
    cert: str | None = None
    key: str | None = None


def parse_address(url: str) -> EtcdAddress:
    """Read `etcd[s]://[user:password@]host[:port][,host[:port]…][/prefix][?ca=FILE&cert=FILE&key=FILE]`."""
    parts = split_url(url, named="etcd url", fix=EXAMPLE)
    login, _, servers = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    has_tls = parts.scheme.lower() == "etcds"
    if "@" in parts.path + parts.fragment:
        raise ConfigError(f"etcd url: has an @ behind its servers; {SPELLED}", fix=EXAMPLE)
    files = _read_files(parts, has_tls=has_tls)
    return EtcdAddress(
        tuple(_read_endpoint(server, number) for number, server in enumerate(servers.split(","), start=1)),
        unquote(parts.path).strip("/"),
        unquote(user),
        unquote(password),
        has_tls,
        *(files.get(name) for name in FILES),
    )


def _read_endpoint(server: str, number: int) -> str:
    try:
        one = urlsplit(f"//{server}")
        host, port = one.hostname, one.port or PORT
    except ValueError as exc:
        raise ConfigError(f"etcd url: server {number} is not host:port; {SPELLED}", fix=EXAMPLE) from exc
    if not host:
        raise ConfigError(f"etcd url: server {number} has no name", fix=EXAMPLE)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _read_files(parts: SplitResult, *, has_tls: bool) -> dict[str, str]:
    files = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(files.keys() - set(FILES)):
        which = f"{unknown[0]!r} is not known" if "@" not in parts.query else f"an option is not known; {SPELLED}"
        raise ConfigError(f"etcd url: {which}", fix=f"one of {', '.join(FILES)}")
    if files and not has_tls:
        raise ConfigError("etcd url: certificates are for TLS", fix="etcds:// in place of etcd://")
    if ("cert" in files) != ("key" in files):
        raise ConfigError("etcd url: cert and key go together", fix="give both, or none")
    return files
