"""Rota inside a program: settings from a mapping or a file, and a process's worth of roles in the background."""

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog

from rota.application.ports.system import System
from rota.config.load import Sources
from rota.config.registry import Registries, load_known
from rota.config.wiring import Blueprint, Built, Role, build_roles, open_node
from rota.domain.errors import ConfigError
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.infrastructure.telemetry.logging import leave_logging_to_the_program
from rota.sdk.app import AppRef
from rota.sdk.tasks import TaskRegistry

log = structlog.get_logger(__name__)


def plan_for(
    settings: Mapping[str, Any] | str | Path | None,
    registries: Registries | None,
    *,
    app: str | None,
    tasks: TaskRegistry,
) -> Blueprint:
    """What to build. A mapping stands alone; a file, or nothing, is read together with the environment."""
    if isinstance(settings, Mapping):
        sources = Sources(flags=flatten(settings), folder=Path(os.devnull), program="the settings given")
    else:
        sources = Sources(file=None if settings is None else Path(settings), environment=os.environ)
    known = registries or Registries()
    loaded = load_known(sources, known)
    return Blueprint(
        settings=loaded.settings,
        system=System(SystemClock(), SystemRandom()),
        registries=known,
        app=None if app is None else AppRef(app),
        tasks=tasks,
    )


@asynccontextmanager
async def open_built(plan: Blueprint, roles: Collection[str]) -> AsyncIterator[Built]:
    """Everything, running; stopped in good order at the end."""
    leave_logging_to_the_program()
    async with open_node(plan) as node:
        built = await build_roles(plan, node, roles=[_role(name) for name in roles])
        running = built.running = asyncio.create_task(built.roles.run())
        running.add_done_callback(_tell_early_end)
        try:
            yield built
        finally:
            built.roles.stop()
            await running


def _tell_early_end(running: "asyncio.Task[None]") -> None:
    if not running.cancelled() and running.exception() is not None:
        log.error("rota.failed", error=str(running.exception()))


def _role(name: str) -> Role:
    try:
        return Role(name)
    except ValueError as exc:
        raise ConfigError(f"there is no role {name!r}", fix=f"roles of {', '.join(Role)}") from exc


def flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`{"worker": {"capacity": 5}}` as `{"worker.capacity": 5}`; what is no section stays whole."""
    return {
        f"{section}.{key}" if key else section: value
        for section, content in settings.items()
        for key, value in (content.items() if isinstance(content, Mapping) else [("", content)])
    }
