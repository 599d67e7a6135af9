"""What makes a task config the code's own: the mark of the declaration that made it, kept in its executor config.

Nobody is shown the mark, and nobody can put it. A config that somebody puts keeps the one that it has while it says
what the code declared; whether the type is enabled, its payload and a pause of its schedule are nothing that code says.
Otherwise the config is theirs, and the code says nothing any more.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rota.domain.schedule import Schedule
from rota.domain.task_config import LOCAL, TaskConfig

MARK = "declared"
NAMED = "declared_schedule"  # beside the mark: whether that declaration named a schedule; earlier releases did not say

_UNSCHEDULED = " unscheduled: "


def mark(declaration: str, *, names_schedule: bool = False) -> str:
    """The executor config of what this declaration makes."""
    return json.dumps({MARK: declaration, **({NAMED: True} if names_schedule else {})})


def find_declaration(config: TaskConfig) -> str | None:
    """The declaration that made it; None: it is somebody's."""
    if config.executor_type != LOCAL or MARK not in config.executor_config:
        return None
    said = json.loads(config.executor_config)
    return said.get(MARK) if isinstance(said, dict) else None


def names_schedule(config: TaskConfig) -> bool:
    """Whether the declaration that made it is known to have named a schedule."""
    return find_declaration(config) is not None and json.loads(config.executor_config).get(NAMED) is True


def unscheduled(declaration: str, missing: Sequence[str]) -> str:
    """This declaration without its schedule, since these calendars are not there: another one than the whole."""
    return f"{declaration}{_UNSCHEDULED}{', '.join(missing)}"


def find_missing_calendars(config: TaskConfig) -> Sequence[str]:
    """Those for want of which what the code says of its schedule was left out."""
    _, _, named = (find_declaration(config) or "").partition(_UNSCHEDULED)
    return named.split(", ") if named else ()


def executor_settings(config: TaskConfig) -> Any:
    """What it says to its executor, without the mark."""
    said = json.loads(config.executor_config)
    return said if find_declaration(config) is None else {key: said[key] for key in said if key not in (MARK, NAMED)}


def as_put(config: TaskConfig, current: TaskConfig | None) -> TaskConfig:
    """What somebody puts in place of the current one: the code's own while it says what the code declared."""
    if find_declaration(config) is not None:
        config = replace(config, executor_config=json.dumps(executor_settings(config)))
    if current is None or find_declaration(current) is None:
        return config
    if executor_settings(config) != executor_settings(current):
        return config
    marked = replace(config, executor_config=current.executor_config)
    alike = replace(
        marked,
        is_enabled=current.is_enabled,
        payload=current.payload,
        schedule=_with_pause_of(current.schedule, marked.schedule),
    )
    return marked if alike.is_repeat_of(current, expected_revision=None) else config


def _with_pause_of(current: Schedule | None, wanted: Schedule | None) -> Schedule | None:
    if current is None or wanted is None:
        return wanted
    return replace(wanted, is_paused=current.is_paused, pause_note=current.pause_note)
