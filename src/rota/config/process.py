"""One process of a cluster, from its settings to its end: signals, live settings, and several workers at once.

SIGTERM and SIGINT stop it in good order, a second one at once. SIGHUP reads the settings anew, as a change of the file
does by itself.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import structlog

from rota.application.ports.system import System
from rota.application.roles import Part, Roles
from rota.config.exposure import check_exposure
from rota.config.load import Loaded, Sources
from rota.config.registry import Registries, load_known
from rota.config.reload import POLL_EVERY, LiveSettings
from rota.config.settings import MonitorSettings
from rota.config.wiring import Blueprint, Built, FrontFactory, Role, TunableFront, build_roles, open_node
from rota.infrastructure.event_loop import new_event_loop
from rota.infrastructure.process_group import ProcessGroup
from rota.infrastructure.system import SystemClock, SystemRandom, end_process
from rota.infrastructure.telemetry.logging import configure_logging, set_level
from rota.sdk.app import AppRef

END_MARGIN = timedelta(seconds=13)  # for a worker to report and leave, once nothing runs there any more
MOST_YOUNG_OBJECTS = 10_000  # before the garbage among them is looked for

log = structlog.get_logger(__name__)


class Monitor(Protocol):
    """Listens already."""

    async def run(self) -> None:
        """Until it is cancelled."""
        ...


MonitorFactory = Callable[[Roles, MonitorSettings], Monitor]


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """What a command line asked for."""

    loaded: Loaded
    sources: Sources
    app: str | None
    roles: tuple[Role, ...]
    open_front: FrontFactory | None = None  # where the role api is among them
    open_monitor: "MonitorFactory | None" = None  # what serves health and figures, where the settings name a port
    welcome: Callable[[TunableFront], Awaitable[None]] | None = None  # once the API listens, before it serves
    beside: tuple[Callable[[], Part], ...] = ()  # what else runs in the process; cancelled when all roles have ended


def run_process(plan: ProcessPlan) -> None:
    """Run the roles until a signal ends them."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_run(plan))


async def _run(plan: ProcessPlan) -> None:
    settings, registries = plan.loaded.settings, Registries()
    configure_logging(settings.log.level, settings.log.format)
    live = _live_settings(plan, registries)
    blueprint = Blueprint(
        settings=settings,
        system=System(SystemClock(), SystemRandom()),
        registries=registries,
        app=None if plan.app is None else AppRef(plan.app),
        open_front=plan.open_front,
        list_settings=live.describe,
        end_process=end_process,
    )
    if Role.API in plan.roles:
        check_exposure(settings.api)  # before anything is opened
    async with open_node(blueprint) as node:
        built = await build_roles(blueprint, node, roles=plan.roles)
        built.roles.servers = _list_servers(plan.loaded)
        live.subscribe(built.tune)
        built.roles.others.append(lambda: node.loops.keep("settings.poll", live.poll, every=POLL_EVERY))
        built.roles.others.extend(plan.beside)
        if plan.open_monitor is not None and settings.monitor.port is not None:
            built.roles.others.append(plan.open_monitor(built.roles, settings.monitor).run)
        _listen(built, live)
        if plan.welcome is not None and built.front is not None:
            await plan.welcome(built.front)
        _spare_garbage_collection()
        await built.roles.run()


def _list_servers(loaded: Loaded) -> dict[str, str]:
    """Where the state is: machines that each have a store of their own look as healthy as a cluster."""
    shown = {row.key: str(row.value) for row in loaded.describe()}
    return {name: shown[f"{name}.url"] for name in ("store", "coordinator")}


def _spare_garbage_collection() -> None:
    """What is there now stays until the end, and need not be looked through again and again; nor, as often as Python
    does by itself, what a burst of requests makes: it costs a twentieth of the CPU time, and finds next to nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(MOST_YOUNG_OBJECTS)


def _live_settings(plan: ProcessPlan, registries: Registries) -> LiveSettings:
    live = LiveSettings(
        plan.loaded, read=lambda: load_known(plan.sources, registries), find_file=plan.sources.find_file
    )
    live.subscribe(lambda settings: set_level(settings.log.level))
    return live


def _listen(built: Built, live: LiveSettings) -> None:
    loop = asyncio.get_running_loop()
    reloads: set[asyncio.Task[object]] = set()

    def reload() -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(live.reload())
        reloads.add(task)  # a task that nobody holds may vanish
        task.add_done_callback(reloads.discard)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, built.roles.stop)
    loop.add_signal_handler(signal.SIGHUP, reload)


def run_group(plan: ProcessPlan, flags: Mapping[str, str]) -> None:
    """Run several worker processes, each under a name and at a port of its own; one that dies is replaced."""
    worker, port = plan.loaded.settings.worker, plan.loaded.settings.monitor.port
    name = worker.name or f"{socket.gethostname()}-{os.getpid()}"
    commands = []
    for place in range(1, worker.processes + 1):
        own = {"worker.processes": "1", "worker.name": f"{name}-{place}"}
        own |= {"monitor.port": str(port + place - 1)} if port else {}
        commands.append(_worker_command(plan, {**flags, **own}))
    configure_logging(plan.loaded.settings.log.level, plan.loaded.settings.log.format)
    end_within = worker.drain_timeout + worker.stop_grace + END_MARGIN
    asyncio.run(ProcessGroup(commands, SystemClock(), end_within=end_within).run())


def _worker_command(plan: ProcessPlan, flags: Mapping[str, str]) -> list[str]:
    command = [sys.executable, "-m", "rota.interfaces.cli.main", "worker"]
    command += [] if plan.sources.file is None else ["--config", str(plan.sources.file)]
    command += [] if plan.app is None else ["--app", plan.app]
    return command + [part for key, value in flags.items() for part in ("--set", f"{key}={value}")]
