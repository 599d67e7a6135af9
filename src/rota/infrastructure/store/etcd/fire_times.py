"""How firing moves a config in etcd: its document, and where it is found by the time that it fires next."""

from collections.abc import Mapping
from typing import Any

import msgspec

from rota.domain.task_config import TaskConfig, UnreadableConfig
from rota.infrastructure.etcd.ops import Op, put
from rota.infrastructure.store import fire_times
from rota.infrastructure.store.etcd.configs import fire_ops
from rota.infrastructure.store.etcd.space import KV, EtcdSpace
from rota.infrastructure.store.fire_times import FireTime


def read_fire_time(kv: KV) -> FireTime:
    return fire_times.read_fire_time(kv.value)


def read_due(kv: KV) -> TaskConfig | UnreadableConfig | None:
    return fire_times.read_due(kv.value)


def move_ops(space: EtcdSpace, kv: KV, *, changed: Mapping[str, Any]) -> list[Op]:
    """What changes these parts of a config's document, and where it is found by the time that it fires next."""
    before = read_fire_time(kv)
    moved = fire_ops(space, before=before, after=msgspec.structs.replace(before, **changed))
    return [put(kv.key.decode(), fire_times.with_changes(kv.value, changed)), *moved]
