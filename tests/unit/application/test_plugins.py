"""Guests in the process: started in order, fed with events, stopped in the opposite order, and never trusted."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from rota.application import metrics
from rota.application.loop import Loops
from rota.application.plugins import BACKLOG, CALL_DEADLINE, END_WITHIN, PluginHost, PluginPlan
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import Metric, NoMetrics
from rota.application.ports.plugin import EventHandler, Plugin, PluginContext
from rota.config.load import Sources, load
from rota.config.registry import Registries, list_plugins
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event, EventKind
from rota.domain.ids import TaskId, WorkerId
from rota.infrastructure.coordination.memory import MemoryState, join_memory
from rota.infrastructure.system import SystemRandom
from rota.testing.faults import Fault, Faults
from rota.testing.faulty_coordinator import faulty_coordinator
from rota.testing.values import replace
from rota.testing.virtual_time import VirtualClock, run_virtually
from tests.support.builders import NOW
from tests.support.clock import settle
from tests.support.marked import mark_as_cancelled
from tests.support.sample_plugin.install import install_sample, installed


class Counts(NoMetrics):
    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    def add(self, counter: Metric, *labels: str, amount: float = 1) -> None:
        self.seen.append((counter.name, *labels))


@dataclass
class Guest:
    """A plugin that notes what is done with it, and misbehaves to order."""

    name: str
    journal: list[str]
    failing: dict[str, Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=dict)
    version: str = "1"
    heard: list[Event] = field(default_factory=list)
    on_event: EventHandler | None = None

    async def initialise(self, context: PluginContext) -> None:
        await self._do("initialise")
        context.on_event(self.on_event or self._hear)

    async def start(self) -> None:
        await self._do("start")

    async def stop(self) -> None:
        await self._do("stop")

    async def _hear(self, event: Event) -> None:
        self.heard.append(event)
        await self._do("event")

    async def _do(self, what: str) -> None:
        self.journal.append(f"{what} {self.name}")
        if what in self.failing:
            await self.failing[what]()


async def fail() -> None:
    raise RuntimeError("a plugin's own mistake")


async def exit_process() -> None:
    raise SystemExit(3)


async def hang() -> None:
    await asyncio.Event().wait()


async def await_a_cancelled_task() -> None:
    own = asyncio.create_task(hang())
    own.cancel()
    await own


async def let_a_group_fail_and_hang() -> None:
    """Before Python 3.13 the group leaves its mark."""
    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
    await hang()


async def look_cancelled_and_await_a_cancelled_task() -> None:
    await mark_as_cancelled()
    await await_a_cancelled_task()


async def ignore_a_cancellation() -> None:
    with suppress(asyncio.CancelledError):
        await hang()
    await hang()


MISDEEDS = [
    *(fail, exit_process, hang, await_a_cancelled_task, let_a_group_fail_and_hang),
    *(look_cancelled_and_await_a_cancelled_task, ignore_a_cancellation),
]


class House:
    """A host on a memory coordinator and virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.faults = Faults()
        self.state = MemoryState(self.clock)
        self.coordinator: Coordinator = faulty_coordinator(join_memory(self.state), self.faults)
        self.counts = Counts()
        loops = Loops(self.clock, SystemRandom(), self.counts)
        self.host = PluginHost(self.coordinator.signals, loops, collector=self.counts)
        self.journal: list[str] = []

    def a_guest(self, name: str, **failing: Callable[[], Coroutine[Any, Any, None]]) -> Guest:
        return Guest(name, self.journal, failing)

    async def start(self, *plugins: Plugin) -> None:
        await self.host.start([a_plan(plugin) for plugin in plugins])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.host.run())
        await settle()
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled(), "only its end ends the host"

    async def publish(self, *events: Event) -> None:
        await self.coordinator.signals.publish(events)
        await settle()


def a_plan(plugin: Plugin) -> PluginPlan:
    return PluginPlan(plugin.name, lambda: plugin)


def an_event(task_id: int = 1, kind: EventKind = EventKind.TASK_FAILED) -> Event:
    return Event(kind=kind, at=NOW, task_id=TaskId(task_id))


def test_plugins_start_in_order_and_stop_in_the_opposite_order() -> None:
    async def main() -> None:
        house = House()
        await house.start(house.a_guest("a"), house.a_guest("b"))
        assert house.host.running == ["a", "b"]
        await house.host.stop()
        assert house.journal == ["initialise a", "initialise b", "start a", "start b", "stop b", "stop a"]
        assert house.host.running == []

    run_virtually(main())


def test_a_plugin_gets_its_own_settings_and_a_log_that_names_it() -> None:
    contexts: list[PluginContext] = []

    class Curious(Guest):
        async def initialise(self, context: PluginContext) -> None:
            contexts.append(context)
            context.log.info("curious.ready")

    async def main() -> None:
        house = House()
        with capture_logs() as logs:
            await house.host.start([PluginPlan("curious", lambda: Curious("own name", []), {"channel": "ops"})])
        assert contexts[0].settings == {"channel": "ops"}
        assert (logs[0]["event"], logs[0]["plugin"]) == ("curious.ready", "curious")

    run_virtually(main())


def test_every_event_reaches_every_handler_in_order() -> None:
    async def main() -> None:
        house = House()
        first, second = house.a_guest("a"), house.a_guest("b")
        await house.start(first, second)
        async with house.running():
            await house.publish(*(an_event(number) for number in range(5)))
        assert [event.task_id for event in first.heard] == [0, 1, 2, 3, 4]
        assert first.heard == second.heard

    run_virtually(main())


def test_a_plugin_that_asked_for_no_events_gets_none() -> None:
    class Deaf(Guest):
        async def initialise(self, context: PluginContext) -> None:
            pass

    async def main() -> None:
        house = House()
        deaf = Deaf("deaf", house.journal)
        await house.start(deaf)
        async with house.running():
            await house.publish(an_event())
        assert deaf.heard == []

    run_virtually(main())


@pytest.mark.parametrize("misdeed", MISDEEDS)
@pytest.mark.parametrize("doing", ["initialise", "start"])
def test_a_plugin_that_cannot_start_is_left_out_and_the_others_go_on(
    doing: str, misdeed: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        house = House()
        with capture_logs() as logs:
            await house.start(house.a_guest("bad", **{doing: misdeed}), house.a_guest("good"))
        assert house.host.running == ["good"]
        assert (metrics.PLUGIN_FAILURES.name, "bad", doing) in house.counts.seen
        assert any(line["event"] == "plugin.failed" and line["plugin"] == "bad" for line in logs)
        assert ("stop bad" in house.journal) is (doing == "start"), "half started is stopped, never started is not"

    run_virtually(main())


@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_a_plugin_that_fails_at_an_event_gets_the_next_one_and_harms_nobody(
    misdeed: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    async def main() -> None:
        house = House()
        bad, good = house.a_guest("bad", event=misdeed), house.a_guest("good")
        await house.start(bad, good)
        async with house.running():
            await house.publish(an_event(1), an_event(2))
            assert len(good.heard) == 2, "it does not wait for the other"
            await house.clock.sleep(3 * CALL_DEADLINE)
            assert len(bad.heard) == 2
        assert house.counts.seen.count((metrics.PLUGIN_FAILURES.name, "bad", "event")) == 2

    run_virtually(main())


@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_a_plugin_that_fails_to_stop_does_not_keep_the_others_running(
    misdeed: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    async def main() -> None:
        house = House()
        await house.start(house.a_guest("good"), house.a_guest("bad", stop=misdeed))
        await house.host.stop()
        assert house.journal[-2:] == ["stop bad", "stop good"]
        assert house.counts.seen == [(metrics.PLUGIN_FAILURES.name, "bad", "stop")]

    run_virtually(main())


def test_cancelling_the_start_is_not_taken_for_a_failure_of_the_plugin() -> None:
    async def main() -> None:
        house = House()
        starting = asyncio.create_task(house.start(house.a_guest("slow", start=hang)))
        await settle()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert house.counts.seen == []

    run_virtually(main())


def test_a_plugin_that_ignores_a_cancellation_does_not_keep_the_host_from_ending() -> None:
    async def main() -> None:
        house = House()
        await house.start(house.a_guest("bad", event=ignore_a_cancellation))
        with capture_logs() as logs:
            async with house.running():
                await house.publish(an_event())
                told_at = house.clock.monotonic()
        assert house.clock.monotonic() - told_at == END_WITHIN.total_seconds()
        [left] = [line for line in logs if line["event"] == "plugin.left_running"]
        assert (left["plugin"], left["doing"]) == ("bad", "event")

    run_virtually(main())


def test_a_call_that_is_too_slow_is_logged_with_the_place_where_it_was() -> None:
    async def main() -> None:
        house = House()
        with capture_logs() as logs:
            await house.start(house.a_guest("slow", start=hang))
        [failed] = [line["exc_info"] for line in logs if line["event"] == "plugin.failed"]
        assert [frame.name for frame in traceback.extract_tb(failed.__cause__.__traceback__)][-2:] == ["hang", "wait"]

    run_virtually(main())


def test_a_feed_that_something_cancels_ends_the_host() -> None:
    async def main() -> None:
        house = House()
        await house.start(house.a_guest("a"), house.a_guest("b"))
        running = asyncio.create_task(house.host.run())
        await settle()
        [feed] = [task for task in asyncio.all_tasks() if task.get_name() == "plugins.feed a"]
        feed.cancel()
        await asyncio.wait_for(running, 1)

    run_virtually(main())


def test_a_plugin_that_left_its_task_looking_cancelled_is_fed_on_whatever_it_does() -> None:
    async def main() -> None:
        house = House()
        misdeeds = [mark_as_cancelled, await_a_cancelled_task]

        async def misbehave() -> None:
            if misdeeds:
                await misdeeds.pop(0)()

        guest = house.a_guest("bad", event=misbehave)
        await house.start(guest)
        async with house.running():
            for number in range(3):
                await house.publish(an_event(number))
        assert len(guest.heard) == 3
        assert house.counts.seen == [(metrics.PLUGIN_FAILURES.name, "bad", "event")]

    run_virtually(main())


def test_a_plugin_that_is_too_slow_loses_the_oldest_events() -> None:
    async def main() -> None:
        house = House()
        slow = house.a_guest("slow", event=lambda: house.clock.sleep(timedelta(seconds=1)))
        await house.start(slow)
        async with house.running():
            await house.publish(an_event(0))  # it is busy with this one
            await house.publish(*(an_event(number) for number in range(1, 101)))
            for start in range(101, BACKLOG + 6, 1000):  # in parts, as a listener's own buffer is as large
                await house.publish(*(an_event(number) for number in range(start, min(start + 1000, BACKLOG + 6))))
            await house.clock.sleep(timedelta(seconds=1))
            await settle()
        assert [event.task_id for event in slow.heard[:2]] == [0, 6]
        assert house.counts.seen.count((metrics.PLUGIN_EVENTS_DROPPED.name, "slow")) == 5

    run_virtually(main())


def test_a_lost_subscription_is_made_anew() -> None:
    async def main() -> None:
        house = House()
        guest = house.a_guest("a")
        await house.start(guest)
        async with house.running():
            await house.publish(an_event(1))
            [listener] = house.state.listeners
            listener.fail(CoordinatorUnavailableError("connection lost"))
            house.state.listeners.clear()
            await join_memory(house.state).signals.publish([an_event(2)])
            house.state.listeners.add(listener)
            await settle()
            await house.publish(an_event(3))
        assert [event.task_id for event in guest.heard] == [1, 2, 3], "after good service it is made anew at once"

    run_virtually(main())


def test_a_guest_is_not_called_for_what_was_missed() -> None:
    async def main() -> None:
        house = House()
        guest = house.a_guest("a")
        await house.start(guest)
        async with house.running():
            await house.publish(an_event(1))
            [listener] = house.state.listeners
            listener.fail(CoordinatorUnavailableError("connection lost"))
            house.state.forget()
            await settle()
            await house.publish(an_event(2))
        assert [event.task_id for event in guest.heard] == [1, 2]

    run_virtually(main())


def test_a_coordinator_that_stays_away_is_asked_again_after_a_pause() -> None:
    async def main() -> None:
        house = House()
        guest = house.a_guest("a")
        house.faults.inject("signals.subscribe", Fault.GONE, times=3)
        await house.start(guest)
        async with house.running():
            await house.publish(an_event(1))
            assert guest.heard == []
            await house.clock.sleep(timedelta(seconds=5))
            await house.publish(an_event(2))
        assert [event.task_id for event in guest.heard] == [2]
        assert house.counts.seen == [(metrics.LOOP_FAILURES.name, "plugins.events")] * 3

    run_virtually(main())


def test_a_plugin_that_cannot_even_be_made_is_left_out() -> None:
    def make() -> Plugin:
        raise RuntimeError("no constructor worth the name")

    async def main() -> None:
        house = House()
        good = house.a_guest("good")
        await house.host.start([PluginPlan("bad", make), PluginPlan("good", lambda: good)])
        assert house.host.running == ["good"]
        assert house.counts.seen == [(metrics.PLUGIN_FAILURES.name, "bad", "initialise")]

    run_virtually(main())


def test_a_plugin_that_lacks_what_a_plugin_has_is_left_out() -> None:
    class Half:
        name = "half"

        async def initialise(self, context: PluginContext) -> None:
            pass

    async def main() -> None:
        house = House()
        half: Any = Half()
        await house.start(half)
        assert house.host.running == []
        assert house.counts.seen == [(metrics.PLUGIN_FAILURES.name, "half", doing) for doing in ("start", "stop")]

    run_virtually(main())


def test_the_sample_plugin_is_found_by_its_entry_point_and_collects_alerts(tmp_path: Path) -> None:
    plans = sample_plans(tmp_path, {"channel": "ops"})
    plugin: Any = plans[0].make()

    async def main() -> None:
        house = House()
        await house.host.start([replace(plans[0], make=lambda: plugin)])
        async with house.running():
            await house.publish(
                an_event(1, EventKind.TASK_CREATED),
                an_event(1, EventKind.TASK_FAILED),
                Event(kind=EventKind.WORKER_OFFLINE, at=NOW, worker_id=WorkerId(9)),
            )
            assert plugin.is_running
        await house.host.stop()

    run_virtually(main())
    assert plugin.alerts == ["ops: task 1 failed", "ops: worker 9 is offline"]
    assert not plugin.is_running


def test_the_sample_plugin_without_its_setting_is_left_out(tmp_path: Path) -> None:
    plans = sample_plans(tmp_path, {})

    async def main() -> None:
        house = House()
        await house.host.start(plans)
        assert house.host.running == []

    run_virtually(main())


def sample_plans(folder: Path, own: dict[str, str]) -> list[PluginPlan]:
    """The sample plugin as settings that name it find it: installed, and known by its entry point only."""
    install_sample(folder)
    loaded = load(Sources(folder=folder, flags={"plugins": [{"name": "sample_alerts", **own}]}))
    with installed(folder):
        return list_plugins(loaded.settings, Registries())
