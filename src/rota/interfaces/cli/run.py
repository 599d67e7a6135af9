"""`rota server`, `rota api`, `rota scheduler`, `rota worker`: the processes of a cluster."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import click

from rota.config.process import ProcessPlan, run_group, run_process
from rota.config.wiring import FrontFactory, Role
from rota.domain.errors import ConfigError
from rota.interfaces.cli.options import config_option, load_settings, sources_of

Command = TypeVar("Command", bound=Callable[..., Any])


def process_options(command: Command) -> Command:
    """What every command that runs a process takes."""
    app = click.option("--app", metavar="FILE.py|MODULE", help="Where your tasks are.")
    change = click.option(
        "--set",
        "changes",
        metavar="KEY=VALUE",
        multiple=True,
        help="A setting, such as worker.capacity=20.",
    )
    return config_option(app(change(command)))


@click.command()
@process_options
def server(config: Path | None, app: str | None, *, changes: tuple[str, ...]) -> None:
    """Run the API, a scheduler and a worker in one process."""
    run_process(_plan(config, app, changes=changes, roles=(Role.API, Role.SCHEDULER, Role.WORKER)))


@click.command()
@process_options
def api(config: Path | None, app: str | None, *, changes: tuple[str, ...]) -> None:
    """Run the HTTP API."""
    run_process(_plan(config, app, changes=changes, roles=(Role.API,)))


@click.command()
@process_options
def scheduler(config: Path | None, app: str | None, *, changes: tuple[str, ...]) -> None:
    """Run a scheduler: one of them leads, the others stand by."""
    run_process(_plan(config, app, changes=changes, roles=(Role.SCHEDULER,)))


@click.command()
@process_options
@click.option("--processes", type=click.IntRange(1, 256), help="Worker processes, to use several cores.")
def worker(config: Path | None, app: str | None, *, changes: tuple[str, ...], processes: int | None) -> None:
    """Run a worker until SIGTERM, then let it finish."""
    flags = changes if processes is None else (*changes, f"worker.processes={processes}")
    plan = _plan(config, app, changes=flags, roles=(Role.WORKER,))
    if plan.loaded.settings.worker.processes > 1:
        run_group(plan, _parse(flags))
    else:
        run_process(plan)


def _plan(config: Path | None, app: str | None, *, changes: Collection[str], roles: tuple[Role, ...]) -> ProcessPlan:
    flags = _parse(changes)
    return ProcessPlan(
        load_settings(config, flags), sources_of(config, flags), app=app, roles=roles, open_front=_front_for(roles)
    )


def _front_for(roles: Collection[Role]) -> FrontFactory | None:
    """What serves the API, imported only where it is served."""
    if Role.API not in roles:
        return None
    from rota.interfaces.http.server import serve_http

    return serve_http


def _parse(changes: Collection[str]) -> dict[str, str]:
    pairs = [change.partition("=") for change in changes]
    for key, equals, _ in pairs:
        if not equals:
            raise ConfigError(f"--set {key}: has no value", fix=f"--set {key}=VALUE")
    return {key: value for key, _, value in pairs}
