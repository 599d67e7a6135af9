"""Firing, on virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random as ChanceOf
from typing import Any

import pytest

from rota.application import metrics
from rota.application.fire import LONGEST_SLEEP, SHORTEST_SLEEP, SLICE, FireSchedules
from rota.application.manage_configs import ManageConfigs
from rota.application.node import Node, join
from rota.application.ports.store import Store
from rota.application.ports.system import System
from rota.application.reign import Reign
from rota.application.steer import SteerTasks
from rota.application.submit import SubmitTasks
from rota.domain.attempt import TaskResult
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.errors import FencedError, StoreUnavailableError
from rota.domain.ids import DEFAULT_TENANT, NodeId, TaskId, WorkerId
from rota.domain.schedule import Occurrence, OnMissed, Overlap, Schedule
from rota.domain.task import CANCELLED, PENDING, PROCESSING, SUCCESS
from rota.domain.term import Term
from rota.infrastructure.coordination.memory import memory_coordinator
from rota.infrastructure.store.memory.store import memory_store
from rota.testing.faults import Fault
from rota.testing.faulty_coordinator import faulty_coordinator
from rota.testing.faulty_store import faulty_store
from rota.testing.values import replace
from rota.testing.virtual_time import VirtualClock
from tests.support.builders import EMAIL, HOUR, MINUTE, a_config
from tests.support.stage import Backstage, Figures
from tests.support.virtual import FixedChance, pass_time, virtually

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


class WrongClock(VirtualClock):
    """A node whose wall clock is off by hours."""

    def __init__(self, clock: VirtualClock, off_by: timedelta) -> None:
        super().__init__(asyncio.get_running_loop())
        self._right = clock
        self._off_by = off_by

    def now(self) -> datetime:
        return self._right.now() + self._off_by


@dataclass
class Leader:
    """A node that fires, on a store that fails to order."""

    node: Node
    faults: Backstage
    figures: Figures
    truth: Store
    reign: Reign

    @classmethod
    async def on(cls, truth: Store, clock: VirtualClock, *, off_by: timedelta = timedelta(0)) -> "Leader":
        faults, figures = Backstage(), Figures()
        node = await join(
            NodeId(f"node-{off_by}-{id(faults)}"),
            faulty_store(truth, faults),
            coordinator=faulty_coordinator(memory_coordinator(clock), faults),
            system=System(WrongClock(clock, off_by), FixedChance()),
            collector=figures,
        )
        reign = Reign(Term(1, trusted_until=float("inf")), clock)
        return cls(node, faults, figures, truth, reign)

    async def fire(self, duty: FireSchedules | None = None) -> None:
        """Do it once."""
        await self.node.ids.keep()
        await (duty or FireSchedules(self.node))(self.reign)

    @asynccontextmanager
    async def firing(self) -> AsyncIterator[None]:
        """As the duty does it."""
        duty = FireSchedules(self.node)

        async def step() -> None:
            await self.fire(duty)
            await self.node.clock.sleep(duty.pause())

        running = asyncio.create_task(self.node.loops.keep("fire", step))
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def put(self, schedule: Schedule, **facts: Any) -> None:
        configs = ManageConfigs(self.node, SubmitTasks(self.node))
        await configs.put(a_config(facts.pop("type", EMAIL), schedule=schedule, **facts))

    async def occurrences(self, task_type: str = EMAIL) -> list[Occurrence]:
        """Oldest first."""
        found = await self.truth.schedules.list_occurrences(DEFAULT_TENANT, task_type, limit=100_000)
        return found[::-1]

    async def outcomes(self, task_type: str = EMAIL) -> list[str]:
        return [one.reason or "fired" for one in await self.occurrences(task_type)]

    def counted(self, result: str) -> int:
        return self.figures.counted[metrics.SCHEDULE_TARGETS.name, result]

    async def run(self, task_id: TaskId | None) -> None:
        """Let a worker begin a task."""
        assert task_id is not None
        state = (await self.truth.tasks.load([task_id]))[task_id].state
        step = state.granted(WorkerId(1), term=1, at=self.node.time.now(), timeout=HOUR)
        await self.truth.tasks.advance([step])

    async def end(self, task_id: TaskId | None) -> None:
        """Let the worker finish it."""
        assert task_id is not None
        state = (await self.truth.tasks.load([task_id]))[task_id].state
        await self.truth.tasks.advance([state.succeeded(TaskResult(), at=self.node.time.now())])


async def a_leader(**options: Any) -> Leader:
    clock = VirtualClock(asyncio.get_running_loop())
    return await Leader.on(memory_store(clock), clock, **options)


@virtually
async def test_every_target_makes_a_task_that_is_queued() -> None:
    leader = await a_leader()
    await leader.put(
        Schedule(every=10 * SECOND, overlap=Overlap.ALLOW, payload='{"a":1}', priority=5), payload='{"b":2}'
    )
    async with leader.firing():
        await pass_time(60.5)
    occurrences = await leader.occurrences()
    assert len(occurrences) == 6
    assert [b.fire_at - a.fire_at for a, b in pairwise(occurrences)] == [10 * SECOND] * 5
    tasks = await leader.truth.tasks.load([one.task_id for one in occurrences if one.task_id])
    assert {(task.spec.payload, task.state.priority) for task in tasks.values()} == {('{"a":1}', 5)}
    assert {task.spec.scheduled_at for task in tasks.values()} == {one.fire_at for one in occurrences}
    taken = await leader.node.coordinator.queue.take(100, order=range(10))
    assert set(taken.task_ids) == set(tasks)
    assert leader.counted("fired") == 6


@virtually
async def test_a_target_fires_at_its_time_and_not_at_the_next_look() -> None:
    leader = await a_leader()
    due_at = leader.node.clock.now() + timedelta(seconds=10.25)
    await leader.put(Schedule(at=(due_at,)))
    async with leader.firing():
        await pass_time(10.24)
        assert await leader.occurrences() == []
        await pass_time(0.02)
        [fired] = await leader.occurrences()
        task = await leader.truth.tasks.find(fired.task_id or TaskId(0), DEFAULT_TENANT)
        assert task is not None
        assert timedelta(0) <= task.spec.created_at - due_at <= SHORTEST_SLEEP
    assert (await leader.truth.schedules.find_next()) is None, "it is over"


@virtually
async def test_the_leader_looks_once_a_second_and_sleeps_no_longer() -> None:
    leader = await a_leader()
    duty = FireSchedules(leader.node)
    assert duty.pause() == LONGEST_SLEEP
    await leader.put(Schedule(every=DAY))
    await leader.fire(duty)
    assert duty.pause() == LONGEST_SLEEP
    async with leader.firing():
        await leader.put(Schedule(every=SECOND), type="new")
        await pass_time(3)
    assert await leader.outcomes("new")


@pytest.mark.parametrize("off_by", [-HOUR, HOUR])
@virtually
async def test_a_leader_whose_clock_is_wrong_fires_by_the_stores(off_by: timedelta) -> None:
    leader = await a_leader(off_by=off_by)
    await leader.put(Schedule(every=MINUTE, overlap=Overlap.ALLOW))
    async with leader.firing():
        await pass_time(600.5)
    assert await leader.outcomes() == ["fired"] * 10


@virtually
async def test_two_leaders_at_once_fire_each_target_once() -> None:
    clock = VirtualClock(asyncio.get_running_loop())
    truth = memory_store(clock)
    one, other = await Leader.on(truth, clock), await Leader.on(truth, clock, off_by=HOUR)
    for number in range(20):
        await one.put(Schedule(every=SECOND, overlap=Overlap.ALLOW), type=f"type-{number}")
    async with one.firing(), other.firing():
        await pass_time(30)
    for number in range(20):
        assert await one.outcomes(f"type-{number}") == ["fired"] * 30
    assert await truth.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 600}
    assert sum(who.counted("fired") for who in (one, other)) == 600


@virtually
async def test_a_leader_that_dies_in_the_middle_leaves_nothing_out_and_nothing_twice() -> None:
    clock = VirtualClock(asyncio.get_running_loop())
    truth = memory_store(clock)
    first = await Leader.on(truth, clock)
    await first.put(Schedule(every=SECOND, overlap=Overlap.ALLOW))
    for fault in (Fault.TIMEOUT, Fault.EXECUTE_AND_TIMEOUT):
        leader = await Leader.on(truth, clock)
        leader.faults.inject("schedules.fire", fault)
        async with leader.firing():
            await pass_time(0.999)
        await pass_time(5)
    last = await Leader.on(truth, clock)
    async with last.firing():
        await pass_time(1)
    occurrences = await last.occurrences()
    assert [b.fire_at - a.fire_at for a, b in pairwise(occurrences)] == [SECOND] * (len(occurrences) - 1)
    assert {one.task_id for one in occurrences} == set(
        await truth.tasks.load([one.task_id for one in occurrences if one.task_id])
    )
    assert await truth.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: len(occurrences)}


@virtually
async def test_a_leader_that_is_none_any_more_fires_nothing() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=SECOND))
    await pass_time(2)
    leader.reign.end()
    with pytest.raises(FencedError):
        await leader.fire()
    assert await leader.occurrences() == []


@virtually
async def test_a_task_that_cannot_be_queued_is_fired_all_the_same() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=SECOND))
    await pass_time(1.5)
    leader.faults.inject("queue.push", Fault.TIMEOUT)
    await leader.fire()
    assert await leader.outcomes() == ["fired"]


@virtually
async def test_when_the_store_is_away_nothing_is_fired_and_it_is_tried_again() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=SECOND))
    await pass_time(1.5)
    leader.faults.inject("schedules.list_due", Fault.TIMEOUT)
    with pytest.raises(StoreUnavailableError):
        await leader.fire()
    await leader.fire()
    assert await leader.outcomes() == ["fired"]


@pytest.mark.parametrize(
    ("on_missed", "expected"),
    [
        (OnMissed.SKIP, ["missed_limit"] + ["missed"] * 9 + ["fired"]),
        (OnMissed.RUN_ONCE, ["missed_limit"] + ["coalesced"] * 9 + ["fired"]),
        (OnMissed.RUN_ALL, ["missed_limit"] + ["fired"] * 10),
    ],
)
@virtually
async def test_a_long_outage_ends_in_a_bounded_number_of_runs(on_missed: OnMissed, expected: list[str]) -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=MINUTE, on_missed=on_missed, missed_limit=10, overlap=Overlap.ALLOW))
    await pass_time((DAY + MINUTE / 2).total_seconds())
    await leader.fire()
    assert await leader.outcomes() == expected
    for result in set(expected):
        assert leader.counted(result) == expected.count(result)


@virtually
async def test_many_that_are_due_at_once_are_written_in_parts() -> None:
    leader = await a_leader()
    for number in range(25):
        schedule = Schedule(every=MINUTE, overlap=Overlap.ALLOW, on_missed=OnMissed.RUN_ALL)
        await leader.put(schedule, type=f"type-{number}")
    await pass_time(5 * MINUTE.total_seconds() + 1)
    await leader.fire(FireSchedules(leader.node, most=10))
    for number in range(25):
        assert await leader.outcomes(f"type-{number}") == ["fired"] * 5


@virtually
async def test_while_a_run_goes_on_the_next_is_skipped() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=MINUTE))
    async with leader.firing():
        await pass_time(61)
        [fired] = await leader.occurrences()
        await leader.run(fired.task_id)
        await pass_time(60)
        await leader.end(fired.task_id)
        await pass_time(60)
    assert await leader.outcomes() == ["fired", f"overlap: task {fired.task_id} goes on", "fired"]


@virtually
async def test_one_run_waits_behind_the_one_that_goes_on() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=MINUTE, overlap=Overlap.QUEUE_ONE), max_concurrent=1)
    async with leader.firing():
        await pass_time(61)
        [fired] = await leader.occurrences()
        await leader.run(fired.task_id)
        await pass_time(120)
    _, waits, skipped = await leader.occurrences()
    assert (waits.reason, skipped.reason) == ("", f"overlap: task {waits.task_id} never began")


@virtually
async def test_the_run_that_goes_on_is_cancelled_for_the_next() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=MINUTE, overlap=Overlap.CANCEL_RUNNING))
    async with leader.firing():
        await pass_time(61)
        [fired] = await leader.occurrences()
        await leader.run(fired.task_id)
        await pass_time(60)
    assert await leader.outcomes() == ["fired", "fired"]
    assert await leader.truth.tasks.count_by_status(DEFAULT_TENANT) == {CANCELLED: 1, PENDING: 1}


@virtually
async def test_a_run_that_ends_before_it_is_cancelled_holds_nothing_up() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=MINUTE, overlap=Overlap.CANCEL_RUNNING))
    await pass_time(61)
    await leader.fire()
    [fired] = await leader.occurrences()
    await pass_time(60)
    ends = SteerTasks(leader.node).cancel(fired.task_id or TaskId(0), DEFAULT_TENANT)
    leader.faults.before("tasks.find", lambda: ends)
    await leader.fire()
    assert await leader.outcomes() == ["fired", "fired"]


@virtually
async def test_the_next_run_begins_so_long_after_the_end_of_the_one_before() -> None:
    leader = await a_leader()
    await leader.put(Schedule(after_end=10 * MINUTE))
    async with leader.firing():
        await pass_time(601)
        [fired] = await leader.occurrences()
        await leader.run(fired.task_id)
        await pass_time(1500)
        assert await leader.outcomes() == ["fired"]
        await leader.end(fired.task_id)
        ended_at = leader.node.time.now()
        await pass_time(599)
        assert await leader.outcomes() == ["fired"]
        await pass_time(2)
    second = (await leader.occurrences())[-1]
    assert timedelta(0) <= second.fire_at - ended_at - 10 * MINUTE <= SECOND
    assert await leader.truth.tasks.count_by_status(DEFAULT_TENANT) == {SUCCESS: 1, PENDING: 1}


@virtually
async def test_a_schedule_runs_no_more_often_than_it_may() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=SECOND, max_runs=3, overlap=Overlap.ALLOW))
    async with leader.firing():
        await pass_time(10)
    assert await leader.outcomes() == ["fired"] * 3


@virtually
async def test_a_schedule_that_is_paused_is_not_looked_at_until_it_goes_on() -> None:
    leader = await a_leader()
    configs = ManageConfigs(leader.node, SubmitTasks(leader.node))
    await leader.put(Schedule(every=SECOND, is_paused=True))
    async with leader.firing():
        await pass_time(3.5)
        assert await leader.outcomes() == []
        await configs.resume_schedule(DEFAULT_TENANT, EMAIL)
        await pass_time(1)
    assert await leader.outcomes() == ["paused", "fired"], "the pause is one range"
    skipped = (await leader.truth.schedules.list_occurrences(DEFAULT_TENANT, EMAIL))[-1]
    assert skipped.since == skipped.fire_at - 2 * SECOND


@virtually
async def test_a_config_that_cannot_be_fired_holds_up_nobody_else() -> None:
    leader = await a_leader()
    now = leader.node.clock.now()
    broken = a_config("broken", schedule=Schedule(cron="* * * * *", only=("gone",)), next_fire_at=now)
    await leader.truth.calendars.put(StoredCalendar(calendar=Calendar(name="gone")))
    await leader.truth.configs.put(broken)
    vars(leader.truth.calendars)["_state"].calendars.clear()  # as if its row could not be read
    bad_payload = Schedule(cron="* * * * *", payload="[1]")
    await leader.truth.configs.put(a_config("bad_payload", schedule=bad_payload, next_fire_at=now))
    await leader.put(Schedule(every=SECOND))
    await pass_time(1)
    await leader.fire()
    assert await leader.outcomes() == ["fired"]
    for task_type in ("broken", "bad_payload"):
        [outcome] = await leader.outcomes(task_type)
        assert outcome.startswith("error: ")
    assert leader.counted("error") == 2
    await leader.truth.configs.put(replace(broken, schedule=Schedule(cron="* * * * *"), next_fire_at=now))
    await pass_time(61)
    await leader.fire()
    assert "fired" in await leader.outcomes("broken")


@virtually
async def test_a_store_whose_clock_steps_forward_an_hour_does_not_fire_an_hour_of_runs() -> None:
    clock = VirtualClock(asyncio.get_running_loop())
    stepped = WrongClock(clock, timedelta(0))
    leader = await Leader.on(memory_store(stepped), clock)
    await leader.put(Schedule(every=SECOND, overlap=Overlap.ALLOW, missed_limit=5))
    async with leader.firing():
        await pass_time(3)
        stepped._off_by = HOUR
        await pass_time(3)
        stepped._off_by = HOUR - MINUTE / 2
        await pass_time(35)
    outcomes = await leader.outcomes()
    assert outcomes.count("missed_limit") == 1
    assert outcomes.count("fired") <= 3 + 5 + 3 + 10
    targets = [one.fire_at for one in await leader.occurrences()]
    assert targets == sorted(set(targets))


@virtually
async def test_what_is_granted_meanwhile_is_live_for_the_next_decision() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=MINUTE))
    await pass_time(61)
    await leader.fire()
    [fired] = await leader.occurrences()
    await leader.run(fired.task_id)
    assert await leader.truth.tasks.count_by_status(DEFAULT_TENANT) == {PROCESSING: 1}
    await pass_time(60)
    await leader.fire()
    assert await leader.outcomes() == ["fired", f"overlap: task {fired.task_id} goes on"]


KILLS = 50
PLACES = ("schedules.list_due", "schedules.fire", "schedules.find_next", "queue.push", "tasks.now")


@virtually
@pytest.mark.parametrize("seed", range(3))
async def test_fifty_leaders_killed_around_fire_times_with_wrong_clocks_leave_each_second_fired_once(seed: int) -> None:
    chance, clock = ChanceOf(seed), VirtualClock(asyncio.get_running_loop())
    truth = memory_store(clock)
    first = await Leader.on(truth, clock)
    await first.put(Schedule(every=SECOND, overlap=Overlap.ALLOW, on_missed=OnMissed.RUN_ALL))
    begin = clock.now()
    for _ in range(KILLS):
        off_by = chance.choice([-HOUR, timedelta(0), HOUR])
        old, new = await Leader.on(truth, clock), await Leader.on(truth, clock, off_by=off_by)
        async with new.firing():
            if chance.random() < 0.5:  # two at once, the old one not yet gone
                async with old.firing():
                    await pass_time(chance.uniform(0.2, 1.2))
            await pass_time(chance.uniform(0, 2))
            stuck = chance.choice([new.faults.before, new.faults.after])
            stuck(chance.choice(PLACES), asyncio.Event().wait)
            await pass_time(chance.uniform(1, 2))  # then it is killed, right before or after one of these calls
    end = clock.now()
    await first.fire()
    occurrences = await first.occurrences()
    # The oracle knows nothing of schedules: whole seconds after the beginning, up to the end.
    whole = range(int(begin.timestamp()) + 1, int(end.timestamp()) + 1)
    assert [one.fire_at.timestamp() for one in occurrences] == list(whole)
    assert [one.reason for one in occurrences] == [""] * len(occurrences)
    ids = [one.task_id for one in occurrences if one.task_id is not None]
    assert len(set(ids)) == len(occurrences) == len(await truth.tasks.load(ids))


@virtually
async def test_while_many_are_decided_upon_others_get_their_turn() -> None:
    leader = await a_leader()
    for number in range(SLICE + 1):
        await leader.put(Schedule(every=SECOND), type=f"{EMAIL}-{number}")
    await pass_time(1.5)
    had_turn = asyncio.Event()
    asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(had_turn.set))
    await leader.fire()
    assert had_turn.is_set()
    assert leader.counted("fired") == SLICE + 1
