"""What the HTTP executor is built from: plain values, nothing of a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from rota.infrastructure.executors.targets import AllowEntry

DEFAULT_SECRET = "default"  # noqa: S105 a name: signs for configs that name none


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSettings:
    """What requests to some hosts are signed with."""

    keys: Sequence[str] = field(repr=False)  # as the settings spell them
    hosts: Sequence[str]  # it is for these alone, or a config could have anything signed for anybody


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """What is needed to talk to some hosts: how they prove who they are, how we do, and headers nobody may read."""

    hosts: Sequence[str] = ()  # it is for these alone, or a config could send its headers anywhere
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    secret_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_http: bool = False  # whether these headers may go where everybody on the way can read them


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    allow: Sequence[AllowEntry] = ()
    closed: Sequence[tuple[str, int]] = ()  # Rota's own servers
    secrets: Mapping[str, SecretSettings] = field(default_factory=dict)
    targets: Mapping[str, TargetSettings] = field(default_factory=dict)
    concurrency: int = 100  # requests at once to one target
    max_response: int = 1024**2  # decoded bytes of an answer
    breaker_failures: int = 10  # in a row, then no request is made for …
    breaker_pause: timedelta = timedelta(seconds=10)


def is_listed(hosts: Sequence[str], host: str, *, port: int) -> bool:
    """Whether a host, `host:port` or `*.suffix` among them is this one."""
    name = f"[{host}]" if ":" in host else host
    spelt = (host, name, f"{name}:{port}")
    return any(
        text.endswith(entry[1:]) if entry.startswith("*.") else text == entry for entry in hosts for text in spelt
    )
