"""A setting as people see it: what holds, and why."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class SettingSource(StrEnum):
    """Who chose a value; each is stronger than the one before."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting as it holds in a process. Values are plain, as one would write them, and no secret is in them."""

    key: str
    value: Any
    default: Any
    source: SettingSource
    origin: str  # where exactly: `rota.yaml:3`, `environment ROTA_WORKER__CAPACITY`
    text: str  # what it is for
    is_live: bool  # a change of the file holds at once
    is_waiting: bool = False  # it was changed since, and the change waits for the next start
