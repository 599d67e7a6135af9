"""What a release reads and changes of a config, kept as JSON, that a newer one may have written: when it fires.

Decoding leaves out what it does not know, so that such a config would fire by half of what it says. It is told as one
that cannot be read, and only those parts of its document change that every release has.
"""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

import msgspec

from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId, TenantId
from rota.domain.schedule import Schedule
from rota.domain.task_config import TaskConfig, UnreadableConfig

_KNOWN = frozenset(one.name for one in fields(Schedule))


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

    @property
    def can_fire(self) -> bool:
        """As that of a config."""
        return self.is_enabled and bytes((self.schedule or {}).get("is_paused", b"false")) != b"true"


_DECODER = msgspec.json.Decoder(FireTime)
_CONFIG = msgspec.json.Decoder(TaskConfig)


def read_config(document: bytes) -> TaskConfig:
    return _CONFIG.decode(document)


def read_fire_time(document: bytes) -> FireTime:
    return _DECODER.decode(document)


def read_due(document: bytes) -> TaskConfig | UnreadableConfig | None:
    """A config that fires some time; None: it never does."""
    found = read_fire_time(document)
    if found.next_fire_at is None:
        return None
    try:
        _check_known(found)
        return read_config(document)
    except (InvalidError, msgspec.MsgspecError) as exc:
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


def _check_known(found: FireTime) -> None:
    strange = sorted((found.schedule or {}).keys() - _KNOWN)
    if strange:
        raise InvalidError(f"schedule.{strange[0]}", "is not known")
