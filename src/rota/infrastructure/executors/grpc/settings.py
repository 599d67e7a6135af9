"""How the gRPC executor behaves; plain values, checked when the configuration is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PUBLIC_TLS = "default"  # the target for servers with a certificate of a public authority


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsTarget:
    """How to speak TLS with some servers. Paths of PEM files."""

    ca: str | None = None  # whom to trust; None: the public authorities
    cert: str | None = None  # who we are, for servers that ask
    key: str | None = None
    server_name: str | None = None  # the name in their certificate, where it is not the host's


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    targets: Mapping[str, TlsTarget] = field(default_factory=dict)
    metadata: frozenset[str] = frozenset()  # names that configs may send besides x-…
    max_message: int = 4 * 1024**2  # bytes
    max_channels: int = 64
