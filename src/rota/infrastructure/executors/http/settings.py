"""What the HTTP executor is built from: plain values, nothing of a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from rota.infrastructure.executors.targets import AllowEntry

DEFAULT_SECRET = "default"  # noqa: S105 a name: signs for configs that name none


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """What is needed to talk to some hosts: how they prove who they are, how we do, and headers nobody may read."""

    hosts: Sequence[str] = ()  # it is for these alone, or a config could send its headers anywhere
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    secret_headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    allow: Sequence[AllowEntry] = ()
    closed: Sequence[tuple[str, int]] = ()  # Rota's own servers
    secrets: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    targets: Mapping[str, TargetSettings] = field(default_factory=dict)
    concurrency: int = 100  # requests at once to one target
    max_response: int = 1024**2  # decoded bytes of an answer
    breaker_failures: int = 10  # in a row, then no request is made for …
    breaker_pause: timedelta = timedelta(seconds=10)
