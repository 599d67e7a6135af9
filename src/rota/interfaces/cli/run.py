"""`rota server`, `rota api`, `rota scheduler`, and the running part of `rota worker`: the processes of a cluster.

What they are built from is imported when they run.
"""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.interfaces.cli.options import load_settings, process_options, read_changes, sources_of

if TYPE_CHECKING:
    from rota.application.roles import Roles
    from rota.config.process import Monitor, ProcessPlan
    from rota.config.settings import MonitorSettings
    from rota.config.wiring import FrontFactory


@click.command()
@process_options
def server(config: Path | None, app: str | None, *, changes: tuple[str, ...]) -> None:
    """Run the API, a scheduler and a worker in one process."""
    _run(_plan(config, app, changes=changes, roles=("api", "scheduler", "worker")))


@click.command()
@process_options
def api(config: Path | None, app: str | None, *, changes: tuple[str, ...]) -> None:
    """Run the API: HTTP, and gRPC where it is installed."""
    _run(_plan_part(config, app, changes=changes, role="api"))


@click.command()
@process_options
def scheduler(config: Path | None, app: str | None, *, changes: tuple[str, ...]) -> None:
    """Run a scheduler: one of them leads, the others stand by."""
    _run(_plan_part(config, app, changes=changes, role="scheduler"))


def run_worker(config: Path | None, app: str | None, *, changes: tuple[str, ...], processes: int | None) -> None:
    """One worker, or a group of them."""
    from rota.config.process import run_group

    flags = changes if processes is None else (*changes, f"worker.processes={processes}")
    plan = _plan_part(config, app, changes=flags, role="worker")
    if plan.loaded.settings.worker.processes > 1:
        run_group(plan, read_changes(flags))
    else:
        _run(plan)


def _run(plan: "ProcessPlan") -> None:
    from rota.config.process import run_process

    run_process(plan)


def _plan_part(config: Path | None, app: str | None, *, changes: Collection[str], role: str) -> "ProcessPlan":
    """Of a process that needs others beside it."""
    from rota.config.alone import check_company

    plan = _plan(config, app, changes=changes, roles=(role,))
    check_company(plan.loaded.settings, role)
    return plan


def _plan(config: Path | None, app: str | None, *, changes: Collection[str], roles: Collection[str]) -> "ProcessPlan":
    from rota.config.process import ProcessPlan
    from rota.config.wiring import Role

    flags = read_changes(changes)
    loaded = load_settings(config, flags)
    return ProcessPlan(
        loaded,
        sources_of(config, flags),
        app=app,
        roles=tuple(map(Role, roles)),
        open_front=_front_for(roles),
        open_monitor=open_monitor,
    )


def _front_for(roles: Collection[str]) -> "FrontFactory | None":
    """What serves the API, imported only where it is served."""
    if "api" not in roles:
        return None
    from rota.interfaces.front import serve_api

    return serve_api


def open_monitor(roles: "Roles", settings: "MonitorSettings") -> "Monitor":
    """What serves health and figures, imported only where it is served."""
    from rota.interfaces.http.monitor import serve_monitor

    return serve_monitor(roles, settings)
