"""One process from start to stop: its base, its roles, and the order in which they end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from structlog.testing import capture_logs

from rota.__about__ import __version__
from rota.application.assist import Assistant
from rota.application.attend import ALIVE_FOR
from rota.application.loop import FatalError
from rota.application.plugins import PluginPlan
from rota.application.ports.executor import Job, Reports
from rota.application.ports.plugin import PluginContext
from rota.application.ports.system import System
from rota.application.roles import Roles
from rota.application.steer import SteerTasks
from rota.application.submit import SubmitTasks
from rota.config.registry import Registries
from rota.config.settings import SchedulerSettings, Settings
from rota.config.wiring import Blueprint, Role, build_roles
from rota.domain.attempt import Outcome, Succeeded
from rota.domain.events import Event, EventKind
from rota.domain.ids import DEFAULT_TENANT, NodeId, TaskId
from rota.domain.task import CANCELLED, PROCESSING, SUCCESS, TaskStatus
from rota.sdk.tasks import TaskRegistry
from rota.testing.faults import Fault
from rota.testing.faulty_coordinator import FaultyAssistance
from tests.support.builders import MINUTE, a_config, a_submission
from tests.support.executors import Script, ScriptedExecutor, never_end, succeed
from tests.support.virtual import Bench, FixedChance, a_bench, pass_time, virtually

BOTH = (Role.SCHEDULER, Role.WORKER)
PLUGIN = "guest"


@dataclass
class Guest:
    """A plugin that notes what it lives through."""

    journal: list[str] = field(default_factory=list)
    name: str = PLUGIN
    version: str = "1"

    async def initialise(self, context: PluginContext) -> None:
        context.on_event(self._hear)

    async def start(self) -> None:
        self.journal.append("start")

    async def stop(self) -> None:
        self.journal.append("stop")

    async def _hear(self, event: Event) -> None:
        self.journal.append(event.kind)


@dataclass
class Process:
    """Roles on a bench."""

    bench: Bench
    roles: Roles
    executor: ScriptedExecutor
    guest: Guest = field(default_factory=Guest)

    def start(self) -> "asyncio.Task[None]":
        return asyncio.create_task(self.roles.run())

    async def submit(self) -> TaskId:
        return (await SubmitTasks(self.bench.node).submit(a_submission())).task_id

    async def status(self, task_id: TaskId) -> TaskStatus:
        task = await self.bench.node.store.tasks.find(task_id, DEFAULT_TENANT)
        assert task is not None
        return task.state.status

    async def until(self, task_id: TaskId, status: TaskStatus) -> None:
        async with asyncio.timeout(60):
            while await self.status(task_id) is not status:
                await pass_time(0.1)


async def a_process(
    roles: Sequence[Role] = (),
    script: Script = succeed,
    *,
    executor: ScriptedExecutor | None = None,
    settings: Settings | None = None,
) -> Process:
    bench, executor = await a_bench(), executor or ScriptedExecutor(script)
    await bench.node.store.configs.put(a_config())
    registries = Registries()
    registries.executors.register("local", lambda _around: executor)
    system = System(bench.clock, FixedChance())
    plan = Blueprint(settings=settings or Settings(), system=system, registries=registries, tasks=TaskRegistry())
    process = Process(bench, (await build_roles(plan, bench.node, roles=roles)).roles, executor)
    process.roles.guests = [PluginPlan(PLUGIN, lambda: process.guest)]
    return process


@asynccontextmanager
async def running(process: Process) -> AsyncIterator["asyncio.Task[None]"]:
    """The roles at work, and stopped in good order afterwards."""
    run = process.start()
    await pass_time(1)
    yield run
    assert not run.done()
    process.roles.stop()
    await run


async def take_seconds(job: Job, reports: Reports) -> Outcome:
    await pass_time(20)
    return Succeeded()


@virtually
async def test_a_process_of_both_roles_runs_what_is_submitted() -> None:
    process = await a_process(BOTH)
    async with running(process):
        await process.until(await process.submit(), SUCCESS)


@virtually
async def test_a_process_is_seen_from_start_to_stop() -> None:
    process = await a_process(BOTH)
    nodes = process.bench.node.store.nodes
    async with running(process):
        await pass_time(60)
        [record] = await nodes.list_alive(since=process.bench.clock.now() - ALIVE_FOR)
        assert (record.node.id, record.node.roles) == (process.bench.node.id, ("scheduler", "worker"))
        assert record.node.version == __version__
    assert await nodes.list_alive(since=record.started_at) == []


@virtually
@pytest.mark.parametrize("roles", [(Role.SCHEDULER,), (Role.WORKER,)])
async def test_a_process_is_open_from_when_its_worker_has_joined_until_it_stops(roles: Sequence[Role]) -> None:
    process = await a_process(roles)
    assert process.roles.is_open() is (Role.WORKER not in roles)
    async with running(process):
        assert process.roles.is_open()
    assert not process.roles.is_open()


@virtually
async def test_it_says_when_it_is_ready_and_when_it_has_stopped() -> None:
    process = await a_process(BOTH)
    with capture_logs() as lines:
        async with running(process):
            pass
    events = [line["event"] for line in lines]
    assert events.index("plugin.started") < events.index("node.ready") < events.index("leader.won")
    assert events[-2:] == ["plugin.stopped", "node.stopped"]


@virtually
async def test_leadership_is_given_up_at_once_while_the_worker_finishes() -> None:
    process = await a_process(BOTH, take_seconds)
    run = process.start()
    task_id = await process.submit()
    await process.until(task_id, PROCESSING)
    process.roles.stop()
    await pass_time(1)
    assert await process.bench.node.coordinator.election.find_leader() is None
    assert not run.done()
    await run
    assert await process.status(task_id) is SUCCESS


@virtually
async def test_who_waits_for_a_task_hears_of_its_end_while_the_worker_finishes() -> None:
    process = await a_process(BOTH, take_seconds)
    run = process.start()
    task_id = await process.submit()
    await process.until(task_id, PROCESSING)
    process.roles.stop()
    waiting = asyncio.create_task(process.roles.watch.wait(task_id, DEFAULT_TENANT, most=MINUTE))
    await run
    assert waiting.done()
    assert (await waiting).state.status is SUCCESS


@virtually
async def test_a_second_stop_does_not_wait_for_what_runs() -> None:
    process = await a_process(BOTH, never_end)
    run = process.start()
    await process.until(await process.submit(), PROCESSING)
    process.roles.stop()
    await pass_time(1)
    assert not run.done(), "the first lets it finish"
    began = process.bench.clock.monotonic()
    process.roles.stop()
    await run
    assert process.bench.clock.monotonic() - began < 1
    assert len(process.executor.stopped) == 1


@virtually
async def test_stopped_before_it_began_it_ends_in_good_order() -> None:
    process = await a_process(BOTH)
    process.roles.stop()
    await process.start()
    assert process.guest.journal[-1] == "stop"
    assert not process.executor.is_started
    assert await process.bench.node.coordinator.election.find_leader() is None


@virtually
async def test_a_part_that_ends_by_itself_ends_the_process_and_is_named() -> None:
    async def end_early() -> None:
        await pass_time(5)

    process = await a_process(BOTH)
    process.roles.others = [end_early]
    with pytest.raises(FatalError, match=r"end_early ended by itself"):
        await process.start()
    assert process.guest.journal[-1] == "stop"
    assert not process.executor.is_started


@virtually
async def test_a_part_that_cannot_go_on_ends_the_process_with_its_error() -> None:
    async def give_up() -> None:
        await pass_time(5)
        raise FatalError("the disk is gone")

    process = await a_process(BOTH)
    process.roles.others = [give_up]
    with pytest.raises(FatalError, match="the disk is gone"):
        await process.start()
    assert await process.bench.node.coordinator.election.find_leader() is None


@virtually
async def test_a_worker_that_cannot_go_on_ends_the_process_with_its_error() -> None:
    class Broken(ScriptedExecutor):
        async def start(self) -> None:
            raise FatalError("no process can be started here")

    process = await a_process(BOTH, executor=Broken())
    with pytest.raises(FatalError, match="no process can be started here"):
        await process.start()
    assert await process.bench.node.coordinator.election.find_leader() is None


@virtually
async def test_a_part_that_ends_after_the_stop_is_no_failure() -> None:
    process = await a_process()
    stopping = asyncio.Event()
    process.roles.others = [lambda: _wait(stopping)]
    run = process.start()
    await pass_time(1)
    stopping.set()
    process.roles.stop()
    await run


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


@virtually
async def test_cancelled_it_leaves_nothing_running() -> None:
    process = await a_process(BOTH, never_end)
    run = process.start()
    await process.until(await process.submit(), PROCESSING)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert process.guest.journal[-1] == "stop"
    assert not process.executor.is_started
    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtually
async def test_the_stores_time_is_kept_though_asking_for_it_fails() -> None:
    process = await a_process()
    async with running(process):
        process.bench.faults.inject("tasks.now", Fault.TIMEOUT, times=3)
        await pass_time(30)
        assert not process.bench.faults.pending


@virtually
async def test_the_id_slot_is_kept_though_renewing_it_fails() -> None:
    process = await a_process()
    async with running(process):
        process.bench.faults.inject("slots.renew", Fault.TIMEOUT, times=3)
        await pass_time(300)
        assert not process.bench.faults.pending
        assert process.bench.node.ids.next() > 0


@virtually
async def test_ends_are_heard_at_once_though_subscribing_failed() -> None:
    process = await a_process()
    process.bench.faults.inject("signals.subscribe", Fault.GONE, times=4)
    async with running(process):
        task_id = await process.submit()
        waiting = asyncio.create_task(process.roles.watch.wait(task_id, DEFAULT_TENANT, most=MINUTE))
        await pass_time(1.25)
        assert not process.bench.faults.pending
        await SteerTasks(process.bench.node).cancel(task_id, DEFAULT_TENANT)
        await pass_time(0.01)
        assert waiting.done()


@virtually
async def test_who_waits_is_answered_though_looking_failed() -> None:
    process = await a_process()
    async with running(process):
        task_id = await process.submit()
        process.bench.faults.inject("tasks.load", Fault.GONE, times=3)
        waiting = asyncio.create_task(process.roles.watch.wait(task_id, DEFAULT_TENANT, most=MINUTE))
        await SteerTasks(process.bench.node).cancel(task_id, DEFAULT_TENANT)
        assert (await waiting).state.status is CANCELLED
        assert not process.bench.faults.pending


@virtually
async def test_plugins_hear_events_from_start_to_stop_though_subscribing_failed() -> None:
    process = await a_process()
    process.bench.faults.inject("signals.subscribe", Fault.GONE, times=2)
    async with running(process):
        await process.submit()
        await pass_time(1)
    assert process.guest.journal == ["start", EventKind.TASK_CREATED, "stop"]


class Door:
    """An API server that is open until it is stopped."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()
        self.has_closed = False

    async def run(self) -> None:
        await self._stopping.wait()
        self.has_closed = True

    def stop(self) -> None:
        self._stopping.set()


@virtually
async def test_a_process_that_stops_closes_its_api() -> None:
    process, door = await a_process(), Door()
    process.roles.front = door
    async with running(process):
        assert not door.has_closed
    assert door.has_closed


@virtually
async def test_a_scheduler_that_cannot_keep_its_seat_ends_the_process_with_its_error() -> None:
    class Broken(FaultyAssistance):
        async def renew(self, node_id: NodeId, seat: int) -> bool:
            raise FatalError("no seat can be kept here")

    process = await a_process(BOTH, settings=Settings(scheduler=SchedulerSettings(shared_dispatch=True)))
    assert process.roles.scheduler is not None
    assert process.roles.scheduler.shared is not None
    seat = process.roles.scheduler.shared.seat
    seat.assistance = Broken(seat.assistance, process.bench.faults)
    async with asyncio.timeout(60):
        with pytest.raises(FatalError, match="no seat can be kept here"):
            await process.start()
    assert await process.bench.node.coordinator.election.find_leader() is None
    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtually
async def test_a_scheduler_whose_assistant_ends_by_itself_ends_the_process() -> None:
    class Brief:
        def resting(self) -> AbstractContextManager[None]:
            return nullcontext()

        async def run(self) -> None:
            await pass_time(5)

    process = await a_process(BOTH, settings=Settings(scheduler=SchedulerSettings(shared_dispatch=True)))
    scheduler = process.roles.scheduler
    assert scheduler is not None
    assert scheduler.shared is not None
    shared = replace(scheduler.shared, assistant=cast(Assistant, Brief()))
    process.roles.scheduler = replace(scheduler, shared=shared)
    async with asyncio.timeout(60):
        with pytest.raises(FatalError, match="run ended by itself"):
            await process.start()


@virtually
async def test_a_scheduler_that_shares_dispatch_leads_and_leaves_no_seat_behind() -> None:
    settings = Settings(scheduler=SchedulerSettings(shared_dispatch=True))
    process = await a_process(BOTH, settings=settings)
    assistance = process.bench.node.coordinator.assistance
    assert assistance is not None
    async with running(process):
        await process.until(await process.submit(), SUCCESS)
        assert await assistance.list_present() == [process.bench.node.id]
    assert await assistance.list_present() == []
