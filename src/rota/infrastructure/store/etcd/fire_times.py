"""What a release reads and changes of a config that a newer one may have written: when it fires.

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
from rota.infrastructure.etcd.ops import Op, delete, put
from rota.infrastructure.store.etcd.configs import fire_key, read_config
from rota.infrastructure.store.etcd.space import KV, EtcdSpace

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


_DECODER = msgspec.json.Decoder(FireTime)


def read_fire_time(kv: KV) -> FireTime:
    return _DECODER.decode(kv.value)


def read_due(kv: KV) -> TaskConfig | UnreadableConfig | None:
    """A config that fires some time; None: it never does."""
    found = read_fire_time(kv)
    if found.next_fire_at is None:
        return None
    try:
        _check_known(found)
        return read_config(kv)
    except (InvalidError, msgspec.MsgspecError) as exc:
        return UnreadableConfig(
            tenant_id=found.tenant_id,
            type=found.type,
            revision=found.revision,
            next_fire_at=found.next_fire_at,
            problem=str(exc),
        )


def move_ops(space: EtcdSpace, kv: KV, *, changed: Mapping[str, Any]) -> list[Op]:
    """What changes these parts of a config's document, and where it is found by the time that it fires next."""
    before = read_fire_time(kv)
    old, new = fire_key(space, before), fire_key(space, msgspec.structs.replace(before, **changed))
    ops = [put(kv.key.decode(), msgspec.json.encode({**msgspec.json.decode(kv.value), **changed}))]
    if old is not None and old != new:
        ops.append(delete(old))
    if new is not None:
        ops.append(put(new))
    return ops


def _check_known(found: FireTime) -> None:
    strange = sorted((found.schedule or {}).keys() - _KNOWN)
    if strange:
        raise InvalidError(f"schedule.{strange[0]}", "is not known")
