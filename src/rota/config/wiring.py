"""From settings to running objects: the one place where everything is built.

`open_node` opens the store and the coordinator and joins the cluster; `build_roles` puts the roles of this process
together on it. Nothing below sees `Settings`: every part gets plain values.
"""

import asyncio
import os
import shlex
import socket
import traceback
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from rota.__about__ import __version__
from rota.application.assist import Assistant
from rota.application.attend import Attendance
from rota.application.chronicle import Chronicle
from rota.application.dispatch import Dispatcher, DispatchSettings
from rota.application.elect import ElectionSettings, Leadership
from rota.application.explain import ExplainTask
from rota.application.figures import Figures
from rota.application.fire import FireSchedules
from rota.application.lead import Pace, SchedulerDuties
from rota.application.node import Node, join
from rota.application.observe import Observe
from rota.application.places import Places
from rota.application.plugins import PluginHost
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.executor import Executor
from rota.application.ports.store import Store
from rota.application.ports.system import System
from rota.application.rebuild import RebuildQueues
from rota.application.reconcile import ReconcileDeliveries, ReconcileQueue
from rota.application.recover import SILENCE, EndSilentAttempts, RecoverLostWorkers
from rota.application.retain import Retain, Retention
from rota.application.roles import Front, Roles, SchedulerRole, SharedDispatch
from rota.application.roll_up import RollUp
from rota.application.seat import Seat
from rota.application.services import ListSettings, Services, build_services
from rota.application.take_back import TakeBack
from rota.application.tokens import Tokens
from rota.application.watch import LOOK_EVERY, TaskWatch
from rota.application.work.registry import ExecutorRegistry
from rota.application.work.settings import WorkerPorts
from rota.application.work.settings import WorkerSettings as WorkSettings
from rota.application.work.spool import MemorySpool, Spool
from rota.application.work.worker import WorkerService
from rota.config.alone import alone
from rota.config.coordination import check_welcome, open_coordinator
from rota.config.declare import declare
from rota.config.deputy import plan_deputy
from rota.config.exposure import check_exposure, own_url
from rota.config.registry import (
    MissingExtraError,
    Registries,
    Surroundings,
    check_executor,
    list_plugins,
    scheme_of,
)
from rota.config.risks import warn_of_risks
from rota.config.schema import prepare_schema
from rota.config.settings import ApiSettings, Settings
from rota.domain.callback import API_BASE, AttemptKey, spell_link
from rota.domain.errors import ConfigError
from rota.domain.ids import NodeId
from rota.domain.node import NodeInfo
from rota.domain.rollup import Reach
from rota.domain.worker import ANY_TYPE, MAX_TYPES, functions_in, is_type_name, types_by
from rota.infrastructure.calendars.days import KnownDays
from rota.infrastructure.executors.local.executor import LocalExecutor
from rota.infrastructure.executors.local.settings import LocalSettings
from rota.infrastructure.spool import open_spool
from rota.infrastructure.telemetry.history import History, recorded, to_file
from rota.sdk.app import AppRef
from rota.sdk.tasks import REGISTRY, TaskRegistry

OWN_CODE = f"{Path(__file__).parents[1]}{os.sep}"

log = structlog.get_logger(__name__)


class Role(StrEnum):
    """What a process does in the cluster."""

    API = "api"
    SCHEDULER = "scheduler"
    WORKER = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """All that the building of one process depends on."""

    settings: Settings
    system: System
    registries: Registries = field(default_factory=Registries)
    app: AppRef | None = None  # the file or module with the user's tasks
    tasks: TaskRegistry = REGISTRY
    open_front: "FrontFactory | None" = None  # what serves the API: an interface, which nothing here knows
    list_settings: ListSettings = tuple  # what the API shows of the settings in force
    end_process: Callable[[], None] | None = None  # at once, from any thread; None: the process is somebody else's

    @property
    def around(self) -> Surroundings:
        return Surroundings(self.settings, self.system.clock, self.system.random)


class TunableFront(Front, Protocol):
    """An API server whose settings can change while it runs."""

    @property
    def address(self) -> str:
        """Where it listens, as a URL."""
        ...

    @property
    def services(self) -> Services:
        """What it serves."""
        ...

    def tune(self, api: ApiSettings) -> None: ...


FrontFactory = Callable[[Services, ApiSettings], TunableFront]


@asynccontextmanager
async def open_node(plan: Blueprint) -> AsyncIterator[Node]:
    """Open what the settings name and join the cluster; everything is closed at the end."""
    around, registries = plan.around, plan.registries
    collector = registries.metrics.get(plan.settings.metrics.collector)(around)
    async with AsyncExitStack() as stack:
        stack.enter_context(alone(plan.settings))
        open_store = registries.stores.get(scheme_of(plan.settings.store.url))
        await prepare_schema(plan.settings)
        await check_welcome(around, registries)
        await warn_of_risks(plan.settings)
        measured = replace(around, collector=collector)
        store = await stack.enter_async_context(open_store(measured))
        coordinator = await stack.enter_async_context(open_coordinator(measured, registries))
        name = node_name(plan.settings)
        store, coordinator = _record(plan, name, store=store, coordinator=coordinator)
        yield await join(name, store, coordinator=coordinator, system=plan.system, collector=collector)


def _record(plan: Blueprint, name: NodeId, *, store: Store, coordinator: Coordinator) -> tuple[Store, Coordinator]:
    """Where a history is asked for, let what this process does be written down."""
    path = os.environ.get("ROTA_HISTORY")
    if not path:
        return store, coordinator
    history = History(name, plan.system.clock, write=to_file(Path(path)))
    return recorded(store, coordinator, history=history, election=_election(plan))


def node_name(settings: Settings) -> NodeId:
    """What this process is called in the cluster: new at every start, so that no two processes share it."""
    name = settings.worker.name or socket.gethostname()
    return NodeId(f"{name[:150]}-{os.getpid()}-{os.urandom(3).hex()}")


async def build_roles(plan: Blueprint, node: Node, *, roles: Collection[Role]) -> "Built":
    """Put this process together. Nothing runs yet."""
    loops = node.loops
    plugins = PluginHost(node.coordinator.signals, loops, collector=node.collector)
    dispatcher = Dispatcher(node.store.tasks, node.coordinator, configs=node.configs, time=node.time, loops=loops)
    watch = TaskWatch(node.store.tasks, node.coordinator.signals, look_every=loops.guard(LOOK_EVERY))
    guests = list_plugins(plan.settings, plan.registries)
    info = NodeInfo(id=node.id, roles=tuple(sorted(roles)), version=__version__, address=socket.gethostname())
    attendance = Attendance(node.store.nodes, node.time, info)
    played = Roles(node, watch, plugins, guests, attendance=attendance)
    built = Built(played, dispatcher, plan.registries, explain=_build_explain(plan.settings, node))
    if Role.SCHEDULER in roles:
        built.roles.scheduler = _build_scheduler(plan, node, dispatcher=dispatcher)
    if Role.WORKER in roles:
        built.local = _build_local(plan, node)
        built.roles.worker = await _build_worker(plan, node, local=built.local, link=_linker(plan, built))
    if Role.API in roles:
        built.front = built.roles.front = _open_front(plan, built)
    built.tune(plan.settings)
    return built


@dataclass(slots=True)
class Built:
    """A process put together, and the handles by which its settings change while it runs."""

    roles: Roles
    dispatcher: Dispatcher
    registries: Registries
    explain: ExplainTask
    local: LocalExecutor | None = None
    front: TunableFront | None = None
    running: "asyncio.Task[None] | None" = None  # where it runs in the background

    def tune(self, settings: Settings) -> None:
        """Take over what may change live."""
        scheduler = settings.scheduler
        balancer = self.registries.balancers.get(scheduler.balancer)
        dispatch = DispatchSettings(scheduler.batch_size, balancer, scheduler.global_rate)
        self.dispatcher.tune(dispatch)
        self.explain.global_rate = scheduler.global_rate
        if self.roles.worker is not None:
            self.roles.worker.set_capacity(settings.worker.capacity)
        if self.front is not None:
            self.front.tune(settings.api)
            self.front.services.backfill.tune(_retention(settings))
        if self.roles.scheduler is not None:
            self.roles.scheduler.duties.retain.tune(_retention(settings))
            self.roles.scheduler.duties.pace.reconcile_every = scheduler.reconcile_interval
            if self.roles.scheduler.shared is not None:
                self.roles.scheduler.shared.assistant.settings = dispatch


def _reach(settings: Settings) -> Reach:
    return Reach(fine=timedelta(days=settings.report.fine_days), days=timedelta(days=settings.report.days))


def _retention(settings: Settings) -> Retention:
    return Retention(tasks=settings.task.retention, reports=_reach(settings))


def _build_explain(settings: Settings, node: Node) -> ExplainTask:
    is_alone = scheme_of(settings.coordinator.url) == "memory"
    return ExplainTask(node.store.tasks, node.store.configs, node.coordinator, is_alone=is_alone)


def _open_front(plan: Blueprint, built: Built) -> TunableFront:
    if plan.open_front is None:
        raise ConfigError("this program cannot serve the API", fix="rota api")
    settings, node = plan.settings, built.roles.node
    check_exposure(settings.api)
    services = build_services(
        node,
        built.roles.watch,
        tokens=Tokens(node),
        figures=Figures(node, store=scheme_of(settings.store.url), coordinator=scheme_of(settings.coordinator.url)),
        explain=built.explain,
    )
    built.roles.others.append(services.tokens.run)
    checked = replace(services.configs, check=partial(check_executor, registries=plan.registries))
    calendars = replace(services.calendars, days=KnownDays())
    report = replace(services.report, reach=_reach(settings))
    served = replace(services, configs=checked, calendars=calendars, report=report)
    return plan.open_front(replace(served, settings=plan.list_settings), settings.api)


def _election(plan: Blueprint) -> ElectionSettings:
    scheduler = plan.settings.scheduler
    return ElectionSettings(ttl=scheduler.leader_ttl, renew_every=scheduler.renew_interval)


def _build_scheduler(plan: Blueprint, node: Node, *, dispatcher: Dispatcher) -> SchedulerRole:
    leadership = Leadership(
        election=node.coordinator.election,
        terms=node.store.terms,
        clock=node.clock,
        random=node.random,
        collector=node.collector,
        node_id=node.id,
        settings=_election(plan),
        on_end=Chronicle(node).end,
    )
    duties = _build_duties(plan, node, dispatcher=dispatcher)
    if not plan.settings.scheduler.shared_dispatch:
        return SchedulerRole(leadership, duties)
    shared = _share(plan, node, dispatcher=dispatcher)
    return SchedulerRole(leadership, replace(duties, assistance=shared.seat.assistance), shared)


def _share(plan: Blueprint, node: Node, *, dispatcher: Dispatcher) -> SharedDispatch:
    """Let this scheduler dispatch at the same time as others."""
    assistance = node.coordinator.assistance
    if assistance is None:
        problem = "scheduler.shared_dispatch: with this store and coordinator the leader alone can dispatch"
        raise ConfigError(
            problem, fix="set store.url and coordinator.url to etcd://…, or scheduler.shared_dispatch off"
        )
    seat = Seat(
        assistance=assistance,
        coordinator=node.coordinator,
        terms=node.store.terms,
        loops=node.loops,
        node_id=node.id,
        settings=_election(plan),
    )
    dispatcher.share(Places(seat, node.collector, node.id))
    worker = plan.settings.worker
    return SharedDispatch(seat, Assistant(node, seat, distrust_for=worker.lease + worker.heartbeat_interval))


def _build_duties(plan: Blueprint, node: Node, *, dispatcher: Dispatcher) -> SchedulerDuties:
    store, coordinator, time, collector = node.store, node.coordinator, node.time, node.collector
    take_back = TakeBack(store.tasks, coordinator, collector)
    rebuild = RebuildQueues(tasks=store.tasks, queue=coordinator.queue, time=time, collector=collector, node_id=node.id)
    return SchedulerDuties(
        loops=node.loops,
        pace=Pace(plan.settings.worker.heartbeat_interval, plan.settings.scheduler.reconcile_interval),
        dispatcher=dispatcher,
        rebuild=rebuild,
        recover=RecoverLostWorkers(
            store=store,
            coordinator=coordinator,
            time=time,
            collector=collector,
            take_back=take_back,
            lease=plan.settings.worker.lease,
        ),
        end_silent=EndSilentAttempts(
            store=store,
            coordinator=coordinator,
            time=time,
            random=node.random,
            take_back=take_back,
            silence=SILENCE + plan.settings.worker.stop_grace,
        ),
        reconcile_queue=ReconcileQueue(
            store=store, coordinator=coordinator, time=time, clock=node.clock, collector=collector, rebuild=rebuild
        ),
        reconcile_deliveries=ReconcileDeliveries(
            store=store, coordinator=coordinator, time=time, collector=collector, take_back=take_back
        ),
        fire=FireSchedules(node),
        retain=Retain(store=store, time=time, clock=node.clock, retention=_retention(plan.settings)),
        observe=Observe(tasks=store.tasks, queue=coordinator.queue, pool=coordinator.pool, collector=collector),
        roll_up=RollUp(reports=store.reports, time=time, clock=node.clock),
        chronicle=Chronicle(node),
    )


def _build_local(plan: Blueprint, node: Node) -> LocalExecutor:
    worker = plan.settings.worker
    settings = LocalSettings(
        capacity=worker.capacity,
        async_grace=worker.stop_grace,
        grace=worker.stop_grace,
        log_limit=worker.task_log_limit,
        memory_limit=worker.task_memory,
    )
    return LocalExecutor(node.clock, node.collector, app=plan.app, registry=plan.tasks, settings=settings)


def _linker(plan: Blueprint, built: "Built") -> Callable[[AttemptKey], str]:
    """From an attempt to the URL by which it is finished from outside; to nothing where no address is known."""
    key, api = built.roles.node.callback_key, plan.settings.api

    def link(attempt: AttemptKey) -> str:
        base = api.public_url or (built.front.address if built.front is not None else own_url(api))
        return f"{base}{API_BASE}{spell_link(key, attempt)}" if base else ""

    return link


async def _build_worker(
    plan: Blueprint, node: Node, *, local: LocalExecutor, link: Callable[[AttemptKey], str]
) -> WorkerService:
    if plan.app is not None:
        load_app(plan.app)
    _check_importable(plan)
    await declare(plan.tasks, node, defaults=plan.settings.task, now=node.time.now())
    ports = WorkerPorts(
        store=node.store,
        coordinator=node.coordinator,
        store_time=node.time,
        configs=node.configs,
        clock=node.clock,
        random=node.random,
        ids=node.ids,
        collector=node.collector,
        spool=_spool(plan.settings),
        link=link,
        guard_every=plan.system.guard_every,
    )
    executors = _list_executors(plan, node, local=local)
    settings = replace(_work_settings(plan.settings, node), types=_types(plan, executors))
    return WorkerService(
        ports,
        settings,
        executors=ExecutorRegistry(executors, resize=local.resize),
        deputy=plan_deputy(
            plan.around,
            plan.registries,
            open_coordinator=lambda: open_coordinator(plan.around, plan.registries),  # its figures are the other one's
            end_process=plan.end_process,
        ),
    )


def load_app(app: AppRef) -> None:
    """Import the user's tasks; what goes wrong in there is told in a sentence, with the command that shows the rest."""
    try:
        app.load()
    except ConfigError:
        raise
    except Exception as exc:  # whatever the code of users does
        problem = f"{app.text} cannot be loaded: {type(exc).__name__}: {_tell_place(exc)}"
        fix = f"python {shlex.quote(app.text)}" if app.is_file else f"python -c 'import {app.text}'"
        raise ConfigError(problem, fix=fix) from exc


def _tell_place(error: Exception) -> str:
    """What it is and where in the user's code: the last line that is neither Rota's nor in no file."""
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith((OWN_CODE, "<"))]
    return f"{error} ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else str(error)


def _types(plan: Blueprint, executors: Mapping[str, Executor]) -> frozenset[str]:
    """Which types to take. Where all are asked for: those that have a function here, by its decorator or because their
    config names one of the app, since a worker of another app would only hand the others back; all that the other
    executors run, since those can run them anywhere; and what else is asked for."""
    asked = frozenset(plan.settings.worker.types)
    if ANY_TYPE not in asked:
        return asked
    declared = frozenset(function.definition.type for function in plan.tasks)
    own = executors["local"]  # unless the program has put another one there, which may run whatever it likes
    others = frozenset(types_by(name) for name in executors if name != "local" or not isinstance(own, LocalExecutor))
    if not declared:
        log.warning("worker.no_tasks", hint="start it with --app FILE.py to give it some", others=sorted(others))
        if plan.app is not None:  # configs may name functions of it
            return asked
    known = declared | others | _named_types(plan.app) | (asked - {ANY_TYPE})
    return known if 0 < len(known) <= MAX_TYPES else asked


def _named_types(app: AppRef | None) -> frozenset[str]:
    """What stands for all types whose config names a function of the app. A file may be called what no config names."""
    named = frozenset() if app is None else frozenset({types_by(functions_in(app.module))})
    return frozenset(name for name in named if is_type_name(name))


def _list_executors(plan: Blueprint, node: Node, *, local: LocalExecutor) -> dict[str, Executor]:
    """Rota's own, and all that are known beside it; only the program itself may replace Rota's own."""
    registry, around = plan.registries.executors, replace(plan.around, collector=node.collector)
    executors: dict[str, Executor] = {"local": local}
    for name in registry.list_names():
        if name not in executors or registry.is_registered(name):
            try:
                executors[name] = registry.get(name)(around)
            except MissingExtraError as error:
                log.debug("worker.executor_left_out", executor=name, reason=str(error))
    return executors


def _check_importable(plan: Blueprint) -> None:
    """A child process imports the function it runs, and it cannot import the program that was started."""
    for function in plan.tasks:
        is_in_child = not function.is_async and function.definition.isolation == "process"
        if is_in_child and plan.app is None and function.function.__module__ == "__main__":
            problem = f"the task {function.definition.type!r} is a plain function in the program itself"
            fix = "move it to a module of its own, make it async, or give it isolation='thread'"
            raise ConfigError(problem, fix=fix)


def _spool(settings: Settings) -> Spool:
    if settings.worker.spool is None:
        return MemorySpool()
    return open_spool(Path(settings.worker.spool), settings.worker.name or socket.gethostname())


def _work_settings(settings: Settings, node: Node) -> WorkSettings:
    worker = settings.worker
    return WorkSettings(
        name=worker.name or str(node.id),
        address=socket.gethostname(),
        capacity=worker.capacity,
        types=frozenset(worker.types),
        weight=worker.weight,
        labels=worker.labels,
        heartbeat_every=worker.heartbeat_interval,
        lease=worker.lease,
        stop_grace=worker.stop_grace,
        drain_timeout=worker.drain_timeout,
        log_bytes_per_attempt=worker.task_log_limit,
    )
