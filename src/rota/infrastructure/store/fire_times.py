"""What a release reads and changes of a config, kept as JSON, that a newer one may have written: when it fires.

Decoding leaves out what it does not know, so that such a config would fire by half of what it says. It is told as one
that cannot be read, hides no other, and only those parts of its document change that every release has.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

import msgspec
import structlog

from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId, TenantId
from rota.domain.schedule import Schedule
from rota.domain.task_config import TaskConfig, UnreadableConfig

_KNOWN = frozenset(one.name for one in fields(Schedule))

log = structlog.get_logger(__name__)


class FireTime(msgspec.Struct, frozen=True, kw_only=True):
    """A config as far as firing changes it."""

    tenant_id: TenantId
    type: str
    revision: int
    is_enabled: bool
    next_fire_at: datetime | None
    runs: int
    last_run: TaskId | None
    schedule: Mapping[str, msgspec.Raw] | None
    created_at: datetime | None = None

    @property
    def can_fire(self) -> bool:
        """As that of a config."""
        return self.is_enabled and bytes((self.schedule or {}).get("is_paused", b"false")) != b"true"

    @property
    def calendars(self) -> frozenset[str]:
        """As those of a schedule."""
        named = [(self.schedule or {}).get(one, b"[]") for one in ("only", "exclude")]
        return frozenset(name for names in named for name in _NAMES.decode(bytes(names)))


_DECODER = msgspec.json.Decoder(FireTime)
_CONFIG = msgspec.json.Decoder(TaskConfig)
_NAMES = msgspec.json.Decoder(tuple[str, ...])


def read_config(document: bytes) -> TaskConfig:
    """Raises `InvalidError` for what this release cannot read."""
    return _read_config(document, read_fire_time(document))


def list_readable(documents: Iterable[bytes]) -> list[TaskConfig]:
    """Those of the configs that can be read; the others are told of and left out."""
    found = []
    for document in documents:
        fire_time = read_fire_time(document)
        try:
            found.append(_read_config(document, fire_time))
        except InvalidError as exc:
            log.warning("config.unreadable", tenant=fire_time.tenant_id, task_type=fire_time.type, error=str(exc))
    return found


def read_fire_time(document: bytes) -> FireTime:
    return _DECODER.decode(document)


def read_due(document: bytes) -> TaskConfig | UnreadableConfig | None:
    """A config that fires some time; None: it never does."""
    found = read_fire_time(document)
    if found.next_fire_at is None:
        return None
    try:
        return _read_config(document, found)
    except InvalidError as exc:
        return UnreadableConfig(
            tenant_id=found.tenant_id,
            type=found.type,
            revision=found.revision,
            next_fire_at=found.next_fire_at,
            problem=str(exc),
        )


def with_changes(document: bytes, changed: Mapping[str, Any]) -> bytes:
    """The same document, but for these parts of it."""
    return msgspec.json.encode({**msgspec.json.decode(document), **changed})


def _read_config(document: bytes, found: FireTime) -> TaskConfig:
    _check_known(found)
    try:
        return _CONFIG.decode(document)
    except msgspec.MsgspecError as exc:
        raise InvalidError("config", f"what is stored as {found.type!r} cannot be read: {exc}") from exc


def _check_known(found: FireTime) -> None:
    strange = sorted((found.schedule or {}).keys() - _KNOWN)
    if strange:
        raise InvalidError(f"schedule.{strange[0]}", "is not known")
