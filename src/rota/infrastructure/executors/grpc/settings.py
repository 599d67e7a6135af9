"""How the gRPC executor behaves; plain values, checked when the configuration is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PUBLIC_TLS = "default"  # the target for servers with a certificate of a public authority


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsTarget:
    """How to speak TLS with some servers, and what proves to them who calls. Paths of PEM files."""

    hosts: Sequence[str] = ()  # `host` or `host:port`: it is for these alone; none: for all, as nothing in it is secret
    ca: str | None = None  # whom to trust; None: the public authorities
    cert: str | None = None  # who we are, for servers that ask
    key: str | None = None
    server_name: str | None = None  # the name in their certificate, where it is not the host's
    secret_metadata: Mapping[str, str] = field(default_factory=dict, repr=False)

    def is_for(self, host: str, port: int) -> bool:
        return not self.hosts or host.lower() in self.hosts or f"{host.lower()}:{port}" in self.hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    targets: Mapping[str, TlsTarget] = field(default_factory=dict)
    metadata: frozenset[str] = frozenset()  # names that configs may send besides x-…
    max_message: int = 4 * 1024**2  # bytes
    max_channels: int = 64
