"""Whatever happens around it: dispatch grants nothing twice, overfills nobody, keeps all limits and forgets nothing."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rota.application.dispatch import Dispatcher, DispatchSettings
from rota.application.reign import Reign
from rota.domain.attempt import Attempt
from rota.domain.balancing import BALANCERS
from rota.domain.ids import TaskId, WorkerId
from rota.domain.queue import QueueEntry
from rota.domain.task import PROCESSING, LiveTask
from rota.domain.term import Term
from rota.testing.faults import Fault
from rota.testing.virtual_time import VirtualLoop
from tests.support.builders import a_config
from tests.support.properties import LIFE
from tests.support.stage import TERM, Stage

FREE, LIMITED, SLOW, BOTH = TYPES = ("free", "limited", "slow", "both")
MOST = {LIMITED: 2, BOTH: 3}
RATES = {SLOW: 2.0, BOTH: 1.0}
WORKERS: dict[int, dict[str, Any]] = {
    1: {"capacity": 1},
    2: {"capacity": 3, "types": frozenset({FREE, SLOW})},
    3: {"capacity": 2, "types": frozenset({LIMITED, BOTH})},
}
HARMLESS = [Fault.TIMEOUT, Fault.GONE]  # the call did not happen
ANY = [*HARMLESS, Fault.EXECUTE_AND_TIMEOUT]
CALLS = {
    "tasks.find_live": ANY,
    "tasks.advance": ANY,
    "tasks.list_running": ANY,
    "configs.find_many": ANY,
    "pool.list_alive": ANY,
    "queue.loads": ANY,
    "queue.take": HARMLESS,  # what a lost answer carried is for reconciliation to find
    "queue.move_due": ANY,
    "queue.push": ANY,
    "deliveries.assign": ANY,
    "signals.publish": ANY,
}


def attempt_of(live: LiveTask) -> Attempt:
    assert live.state.worker_id is not None
    return Attempt(live.id, live.state.attempt, live.state.worker_id)


class DispatchMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.next_id = 1
        self.releases: Counter[TaskId] = Counter()
        self.grants: dict[tuple[TaskId, int], tuple[str, datetime, int]] = {}  # type, when and to whom
        self.reigns = 0

    def teardown(self) -> None:
        try:
            if self.reigns:
                self.runner.run(self.everything_is_granted_in_the_end())
        finally:
            self.runner.close()

    def do(self, act: Coroutine[Any, Any, None]) -> None:
        """Let something happen, and what follows from it."""

        async def play() -> None:
            await act
            await self.stage.settle()

        self.runner.run(play())

    @initialize(balancer=st.sampled_from(sorted(BALANCERS)), batch=st.sampled_from([1, 2, 500]))
    def begin(self, balancer: str, batch: int) -> None:
        self.tuning = DispatchSettings(batch_size=batch, balancer=BALANCERS[balancer])

        async def play() -> None:
            self.stage = Stage()
            for task_type in TYPES:
                limits = {"max_concurrent": MOST.get(task_type), "rate_per_second": RATES.get(task_type)}
                await self.stage.truth.configs.put(a_config(task_type, **limits))
            await self.stage.time.sync()
            self.stage.dispatcher.tune(self.tuning)
            self.crown()

        self.runner.run(play())

    def crown(self) -> None:
        self.reigns += 1
        term = Term(TERM + self.reigns, trusted_until=float("inf"))
        self.running = asyncio.create_task(self.stage.dispatcher.run(Reign(term, self.stage.clock)))

    async def depose(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    async def waiting(self) -> list[LiveTask]:
        lives = await self.stage.truth.tasks.list_live(after=None, limit=10_000)
        return [live for live in lives if live.state.status.is_waiting]

    async def running_now(self) -> list[LiveTask]:
        return await self.stage.truth.tasks.list_running(after=None, limit=10_000)

    @rule(
        number=st.integers(1, 6),
        task_type=st.sampled_from(TYPES),
        priority=st.sampled_from([0, 5, 9]),
        delay=st.sampled_from([0, 0, 3]),
    )
    def tasks_arrive(self, number: int, task_type: str, priority: int, delay: int) -> None:
        ids = range(self.next_id, self.next_id + number)
        self.next_id += number
        due_at = self.stage.clock.now() + timedelta(seconds=delay)
        self.do(self.stage.submit(*ids, type=task_type, priority=priority, due_at=due_at))

    @rule(worker_id=st.sampled_from(sorted(WORKERS)), is_draining=st.booleans())
    def a_worker_comes_or_changes(self, worker_id: int, is_draining: bool) -> None:
        async def play() -> None:
            await self.stage.hire(worker_id, is_draining=is_draining, **WORKERS[worker_id])

        self.do(play())

    @rule(number=st.integers(1, 3), is_acknowledged=st.sampled_from([True, True, False]))
    def attempts_end(self, number: int, is_acknowledged: bool) -> None:
        async def play() -> None:
            ending = (await self.running_now())[:number]
            await self.stage.finish(*[live.id for live in ending], is_acknowledged=is_acknowledged)

        self.do(play())

    @rule()
    def a_worker_gives_an_attempt_back(self) -> None:
        async def play() -> None:
            now, deliveries = self.stage.clock.now(), self.stage.calm.deliveries
            for live in (await self.running_now())[:1]:
                self.releases[live.id] += 1
                await self.stage.truth.tasks.advance([live.state.released("drained", at=now, due_at=now)])
                await deliveries.take(attempt_of(live).worker_id, 1_000, wait=timedelta(0))
                await self.stage.calm.queue.push([QueueEntry(live.id, live.state.priority)])
                await deliveries.acknowledge([attempt_of(live)])

        self.do(play())

    @rule(place=st.integers(0, 100))
    def a_waiting_task_is_cancelled(self, place: int) -> None:
        async def play() -> None:
            if waiting := await self.waiting():
                await self.stage.cancel(waiting[place % len(waiting)].id)

        self.do(play())

    @rule(call=st.sampled_from(sorted(CALLS)), choice=st.integers(0, 5), times=st.integers(1, 3))
    def a_call_will_fail(self, call: str, choice: int, times: int) -> None:
        faults = CALLS[call]
        self.stage.faults.inject(call, faults[choice % len(faults)], times=times)

    @rule(seconds=st.sampled_from([0.01, 0.4, 2.5, 40]))
    def time_passes(self, seconds: float) -> None:
        self.do(self.stage.pass_time(seconds))

    @rule()
    def the_leader_steps_down_and_is_elected_again(self) -> None:
        async def play() -> None:
            self.stage.faults.heal()
            await self.depose()
            await self.stage.dispatcher.hand_back()
            self.crown()

        self.do(play())

    @rule()
    def the_leader_crashes(self) -> None:
        """It dies with all it knew; its successor compares store and coordinator as it begins."""

        async def play() -> None:
            stage = self.stage
            await self.depose()
            await stage.dispatcher._taking.catch()  # a take of its was under way: what it brings is lost with it
            stage.dispatcher = Dispatcher(
                stage.store.tasks, stage.coordinator, configs=stage.configs, time=stage.time, loops=stage.loops
            )
            stage.dispatcher.tune(self.tuning)
            await stage.calm.deliveries.assign([attempt_of(live) for live in await self.running_now()])
            await stage.calm.queue.push([QueueEntry(live.id, live.state.priority) for live in await self.waiting()])
            self.crown()

        self.do(play())

    @invariant()
    def everything_is_in_order(self) -> None:
        if self.reigns:
            self.do(self.check())

    async def check(self) -> None:
        running = await self.running_now()
        for live in running:
            self.note(live)
        on_worker = Counter(live.state.worker_id for live in running)
        assert all(number <= WORKERS[worker_id or 0]["capacity"] for worker_id, number in on_worker.items())
        of_type = Counter(live.type for live in running)
        assert all(of_type[task_type] <= most for task_type, most in MOST.items())
        for live in running:
            types = WORKERS[live.state.worker_id or 0].get("types", TYPES)
            assert live.type in types
        self.check_rates()

    def note(self, live: LiveTask) -> None:
        assert live.state.started_at is not None
        grant = (live.type, live.state.started_at, live.state.worker_id or 0)
        assert self.grants.setdefault((live.id, live.state.attempt), grant) == grant
        assert live.state.attempt <= 1 + self.releases[live.id]
        assert live.state.started_at >= live.state.due_at - live.timeout

    def check_rates(self) -> None:
        for task_type, rate in RATES.items():
            times = sorted(at for granted_type, at, _ in self.grants.values() if granted_type == task_type)
            for number, at in enumerate(times, 1):
                allowed = rate * (at - times[0]).total_seconds() + max(rate, 1.0) * self.reigns
                assert number <= allowed + 1e-6

    async def everything_is_granted_in_the_end(self) -> None:
        """Once nothing fails and somebody can do everything."""
        self.stage.faults.heal()
        for worker_id, description in WORKERS.items():
            await self.stage.hire(worker_id, **description)
            held = await self.stage.calm.deliveries.held(WorkerId(worker_id))
            await self.stage.calm.deliveries.acknowledge([attempt for attempt in held if not await self.runs(attempt)])
        await self.stage.pass_time(10)  # the longest pause after a failure, and what is due later
        for _ in range(2 * self.next_id):
            await self.check()
            running = await self.running_now()
            for live in running:
                assert attempt_of(live) in await self.stage.handed_over(attempt_of(live).worker_id)
            await self.stage.finish(*[live.id for live in running])
            await self.stage.pass_time(1.1)
        assert await self.running_now() == await self.waiting() == []
        await self.depose()

    async def runs(self, attempt: Attempt) -> bool:
        lives = await self.stage.truth.tasks.find_live([attempt.task_id])
        return any(live.state.status is PROCESSING and attempt_of(live) == attempt for live in lives)


DispatchMachine.TestCase.settings = LIFE
TestDispatch = pytest.mark.timeout(300)(DispatchMachine.TestCase)  # of use only when it fails: to shrink takes time
