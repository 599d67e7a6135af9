"""From settings to running objects: what is named is used, and what may change live does."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.application.ports.metrics import NoMetrics
from rota.application.ports.plugin import PluginContext
from rota.application.ports.system import System
from rota.application.services import Services
from rota.config import wiring
from rota.config.embedded import flatten
from rota.config.load import Sources, load
from rota.config.registry import Registries
from rota.config.settings import ApiSettings, Settings, WorkerSettings
from rota.config.wiring import Blueprint, Role, build_roles, node_name, open_node
from rota.domain.balancing import Draw, Need, least_task
from rota.domain.errors import ConfigError
from rota.domain.events import Event, EventKind
from rota.domain.task import PROCESSING, SUCCESS
from rota.domain.waiting import Reason
from rota.domain.worker import Worker
from rota.infrastructure.executors.local.executor import LocalExecutor
from rota.infrastructure.system import SystemClock
from rota.sdk.app import AppRef
from rota.sdk.tasks import TaskFunction, TaskRegistry, define
from rota.testing.virtual_time import VirtualClock
from tests.support.builders import EMAIL, a_config
from tests.support.executors import ScriptedExecutor, never_end
from tests.support.sample_plugin.install import install_package, installed
from tests.support.virtual import FixedChance, pass_time, virtually

IN_MEMORY = {"store.url": "memory://", "coordinator.url": "memory://", "metrics.collector": "none"}


class RecordingBalancer:
    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, need: Need, workers: Sequence[Worker], *, draw: Draw) -> Worker:
        self.asked += 1
        return least_task(need, workers, draw=draw)


class Guest:
    name, version = "guest", "1"

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.heard: list[str] = []

    async def initialise(self, context: PluginContext) -> None:
        self.settings = dict(context.settings)
        context.on_event(self._hear)

    async def start(self) -> None:
        """Nothing to begin."""

    async def stop(self) -> None:
        self.heard.append("stop")

    async def _hear(self, event: Event) -> None:
        self.heard.append(event.kind)


@dataclass
class Window:
    """In place of what serves the API."""

    services: Services
    api: ApiSettings
    address: str = ""

    def tune(self, api: ApiSettings) -> None:
        self.api = api

    def stop(self) -> None:
        """It serves nobody."""

    async def run(self) -> None:
        """Likewise."""


def settings_of(folder: Path, **sections: Any) -> Settings:
    return load(Sources(flags=IN_MEMORY | flatten(sections), folder=folder)).settings


@pytest.fixture
def registries() -> Registries:
    """With an executor of the test's own in place of the local one."""
    made = Registries()
    made.executors.register("local", lambda _around: ScriptedExecutor())
    return made


def a_plan(registries: Registries, settings: Settings) -> Blueprint:
    clock = VirtualClock(asyncio.get_running_loop())
    return Blueprint(
        settings=settings, system=System(clock, FixedChance()), registries=registries, tasks=TaskRegistry()
    )


@asynccontextmanager
async def running(registries: Registries, settings: Settings, **config: Any) -> AsyncIterator[rota.Rota]:
    """Everything at work in memory, with a config for e-mails."""
    async with rota.Rota.of(a_plan(registries, settings)) as app:
        await app._node.store.configs.put(a_config(EMAIL, **config))
        yield app


@virtually
async def test_an_executor_that_was_registered_runs_the_tasks_that_name_it(
    registries: Registries, tmp_path: Path
) -> None:
    mine = ScriptedExecutor()
    registries.executors.register("mine", lambda _around: mine)
    async with running(registries, settings_of(tmp_path), executor_type="mine") as app:
        assert (await (await app.submit(EMAIL)).wait()).status is SUCCESS
        assert mine.is_started
    assert len(mine.begun) == 1
    assert not mine.is_started


@virtually
async def test_an_installed_package_does_not_take_the_place_of_the_local_executor(tmp_path: Path) -> None:
    install_package(tmp_path, "sneaky", points={"rota.executors": "local = no_such_module:Executor"})
    with installed(tmp_path):
        plan = a_plan(Registries(), settings_of(tmp_path))
        async with open_node(plan) as node:
            built = await build_roles(plan, node, roles=[Role.WORKER])
            assert built.local is not None


@virtually
async def test_a_balancer_that_was_registered_is_asked(registries: Registries, tmp_path: Path) -> None:
    mine = RecordingBalancer()
    registries.balancers.register("mine", mine)
    async with running(registries, settings_of(tmp_path, scheduler={"balancer": "mine"})) as app:
        await (await app.submit(EMAIL)).wait()
    assert mine.asked == 1


@virtually
async def test_a_plugin_that_was_registered_gets_its_settings_and_hears_events(
    registries: Registries, tmp_path: Path
) -> None:
    guest = Guest()
    registries.plugins.register("mine", lambda: guest)
    async with running(registries, settings_of(tmp_path, plugins=[{"name": "mine", "channel": "ops"}])) as app:
        await pass_time(1)  # until it listens
        await (await app.submit(EMAIL)).wait()
    assert guest.settings == {"channel": "ops"}
    assert {EventKind.TASK_CREATED, EventKind.TASK_COMPLETED} <= set(guest.heard)
    assert guest.heard[-1] == "stop"


@virtually
async def test_a_changed_capacity_is_used_at_once(tmp_path: Path) -> None:
    registries = Registries()
    registries.executors.register("local", lambda _around: ScriptedExecutor(never_end))
    async with running(registries, settings_of(tmp_path, worker={"capacity": 1})) as app:
        await app.submit_many(EMAIL, [None] * 5)
        await pass_time(2)
        assert (await app.count())[PROCESSING] == 1
        app._get_built().tune(settings_of(tmp_path, worker={"capacity": 4}))
        await pass_time(5)
        assert (await app.count())[PROCESSING] == 4


@virtually
async def test_a_changed_balancer_is_used_at_once(registries: Registries, tmp_path: Path) -> None:
    mine = RecordingBalancer()
    registries.balancers.register("mine", mine)
    async with running(registries, settings_of(tmp_path)) as app:
        await (await app.submit(EMAIL)).wait()
        assert mine.asked == 0
        app._get_built().tune(settings_of(tmp_path, scheduler={"balancer": "mine"}))
        await (await app.submit(EMAIL)).wait()
        assert mine.asked == 1


@virtually
async def test_a_changed_rate_is_used_at_once(registries: Registries, tmp_path: Path) -> None:
    async with running(registries, settings_of(tmp_path)) as app:
        app._get_built().tune(settings_of(tmp_path, scheduler={"global_rate": 1}))
        await app.submit_many(EMAIL, [None] * 30)
        await pass_time(10)
        assert 5 <= (await app.count())[SUCCESS] <= 15


@virtually
async def test_a_program_is_told_by_its_settings_as_they_are_what_a_task_waits_for(
    registries: Registries, tmp_path: Path
) -> None:
    async with running(registries, settings_of(tmp_path, scheduler={"global_rate": 0.1})) as app:
        [*_, last] = await app.submit_many(EMAIL, [None] * 20)
        await pass_time(5)
        answer = await app.explain(last.id)
        assert (answer.reason, answer.global_rate) == (Reason.GLOBAL_RATE, 0.1)
        app._get_built().tune(settings_of(tmp_path, scheduler={"global_rate": 0.2}))
        assert (await app.explain(last.id)).global_rate == 0.2
        await app._node.store.configs.put(a_config("report", executor_type="other"))
        answer = await app.explain((await app.submit("report")).id)
        assert answer.reason is Reason.NO_WORKER
        assert "all of Rota is one process here, which no other worker can join" in answer.sentence


@virtually
async def test_the_api_is_told_the_same_as_the_program(registries: Registries, tmp_path: Path) -> None:
    plan = replace(a_plan(registries, settings_of(tmp_path)), open_front=Window)
    async with open_node(plan) as node:
        built = await build_roles(plan, node, roles=[Role.API])
        assert built.front is not None
        assert built.front.services.explain is built.explain


@virtually
async def test_a_changed_retention_is_used_at_once(registries: Registries, tmp_path: Path) -> None:
    async with running(registries, settings_of(tmp_path)) as app:
        await (await app.submit(EMAIL)).wait()
        await pass_time(130)
        assert await app.count() == {SUCCESS: 1}
        app._get_built().tune(settings_of(tmp_path, task={"retention": "1m"}))
        await pass_time(130)
        assert await app.count() == {}


@virtually
async def test_a_backfill_goes_by_the_retention_that_is_in_force(registries: Registries, tmp_path: Path) -> None:
    plan = replace(a_plan(registries, settings_of(tmp_path, task={"retention": "40d"})), open_front=Window)
    async with open_node(plan) as node:
        built = await build_roles(plan, node, roles=[Role.API])
        assert built.front is not None
        backfill = built.front.services.backfill
        assert backfill.retention.tasks == timedelta(days=40)
        built.tune(settings_of(tmp_path, task={"retention": "50d"}))
        assert backfill.retention.tasks == timedelta(days=50)


@virtually
async def test_a_changed_pace_of_reconciliation_is_used_at_once(registries: Registries, tmp_path: Path) -> None:
    async with running(registries, settings_of(tmp_path)) as app:
        built = app._get_built()
        built.tune(settings_of(tmp_path, scheduler={"reconcile_interval": "2s"}))
        assert built.roles.scheduler is not None
        assert built.roles.scheduler.duties.pace.reconcile_every.total_seconds() == 2


@virtually
async def test_a_balancer_that_nobody_knows_changes_nothing(registries: Registries, tmp_path: Path) -> None:
    async with running(registries, settings_of(tmp_path)) as app:
        with pytest.raises(ConfigError, match="unknown balancer 'best'"):
            app._get_built().tune(settings_of(tmp_path, scheduler={"balancer": "best"}, worker={"capacity": 1}))
        worker = app._get_built().roles.worker
        assert worker is not None
        assert worker.capacity == 10


@virtually
async def test_a_program_that_brings_no_server_cannot_serve_the_api(registries: Registries, tmp_path: Path) -> None:
    plan = a_plan(registries, settings_of(tmp_path))
    async with open_node(plan) as node:
        with pytest.raises(ConfigError, match="cannot serve the API; try: rota api"):
            await build_roles(plan, node, roles=[Role.API])


@virtually
async def test_where_the_leader_alone_can_dispatch_schedulers_that_are_to_share_it_do_not_start(
    registries: Registries, tmp_path: Path
) -> None:
    plan = a_plan(registries, settings_of(tmp_path, scheduler={"shared_dispatch": True}))
    async with open_node(plan) as node:
        alone = replace(node, coordinator=replace(node.coordinator, assistance=None))
        with pytest.raises(ConfigError, match=r"shared_dispatch.* the leader alone can dispatch; try: set store.url"):
            await build_roles(plan, alone, roles=[Role.SCHEDULER])
        await build_roles(plan, alone, roles=[Role.WORKER])  # which dispatches nothing


@virtually
async def test_what_changes_live_changes_beside_the_leader_too(registries: Registries, tmp_path: Path) -> None:
    plan = a_plan(registries, settings_of(tmp_path, scheduler={"shared_dispatch": True}))
    async with open_node(plan) as node:
        built = await build_roles(plan, node, roles=[Role.SCHEDULER])
        built.tune(settings_of(tmp_path, scheduler={"shared_dispatch": True, "batch_size": 7}))
        assert built.roles.scheduler is not None
        assert built.roles.scheduler.shared is not None
        assert built.roles.scheduler.shared.assistant.settings.batch_size == 7


@pytest.mark.parametrize("role", [Role.SCHEDULER, Role.WORKER])
@virtually
async def test_a_process_plays_the_roles_it_was_asked_for(registries: Registries, tmp_path: Path, role: Role) -> None:
    plan = a_plan(registries, settings_of(tmp_path))
    async with open_node(plan) as node:
        built = await build_roles(plan, node, roles=[role])
        built.tune(plan.settings)
    assert (built.roles.scheduler is not None, built.roles.worker is not None) == (
        role is Role.SCHEDULER,
        role is Role.WORKER,
    )


def test_no_two_processes_share_a_name_however_alike_they_are_called(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, worker={"name": "pod-1"})
    names = {node_name(settings) for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("pod-1-") for name in names)


def test_a_long_name_still_makes_a_node_name(tmp_path: Path) -> None:
    assert len(node_name(settings_of(tmp_path, worker={"name": "x" * 200}))) < 190


def test_sections_become_dotted_keys_and_lists_stay_whole() -> None:
    assert flatten({"worker": {"capacity": 5, "labels": {"zone": "a"}}, "plugins": ["x"], "log.level": "info"}) == {
        "worker.capacity": 5,
        "worker.labels": {"zone": "a"},
        "plugins": ["x"],
        "log.level": "info",
    }


def declared_types(
    executors: dict[str, Any], *, tasks: TaskRegistry, app: AppRef | None = None, asked: tuple[str, ...] = ("*",)
) -> frozenset[str]:
    settings = Settings(worker=WorkerSettings(types=asked))
    plan = Blueprint(settings=settings, system=System(SystemClock(), FixedChance()), tasks=tasks, app=app)
    return wiring._types(plan, executors)


def test_a_worker_takes_the_functions_it_has_and_all_that_other_executors_run() -> None:
    local = LocalExecutor(SystemClock(), NoMetrics())
    tasks = TaskRegistry()
    executors = {"local": local, "http": ScriptedExecutor()}

    assert declared_types(executors, tasks=tasks) == {"@http"}
    assert declared_types({"local": local}, tasks=tasks) == {"*"}
    assert declared_types(executors, tasks=tasks, app=AppRef("some.module")) == {"*"}
    tasks.add(TaskFunction(node_name, define("greet", {})))
    assert declared_types(executors, tasks=tasks) == {"greet", "@http"}
    assert declared_types({"local": ScriptedExecutor()}, tasks=TaskRegistry()) == {"@local"}


def test_a_worker_also_takes_what_names_a_function_of_its_app_and_what_else_is_asked_for() -> None:
    local = LocalExecutor(SystemClock(), NoMetrics())
    tasks = TaskRegistry()
    tasks.add(TaskFunction(node_name, define("greet", {})))

    assert declared_types({"local": local}, tasks=tasks, app=AppRef("jobs.py")) == {"greet", "@local.jobs"}
    assert declared_types({"local": local}, tasks=tasks, app=AppRef("my jobs.py")) == {"greet"}
    asked = declared_types({"local": local}, tasks=tasks, asked=("*", "@local", "report"))
    assert asked == {"greet", "@local", "report"}
    assert declared_types({"local": local}, tasks=tasks, app=AppRef("jobs.py"), asked=("greet",)) == {"greet"}
