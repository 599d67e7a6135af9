"""One run: steady load, one fault after the other, each measured; then quiet, and the judgement of all of it.

What is measured is how long a task had to wait because of a fault, apart from its own run time: the longest wait of
those that ran when it came and of those that were asked for, ten a second, until it was over. For outages of the
store, which nothing can be asked of meanwhile, it is counted from when that accepts work again.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import rota
from rota.application.node import Node
from rota.application.tokens import Tokens
from rota.config.embedded import plan_for
from rota.config.wiring import open_node
from rota.domain.access import Role
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.task import SUCCESS, Task
from rota.infrastructure.system import SystemClock
from rota.infrastructure.telemetry.history import History, to_file
from rota.sdk.tasks import TaskRegistry
from tests.chaos.client import PATIENCE_S, Client, wait_for_all
from tests.chaos.faults import Fault, NotInEffectError
from tests.chaos.ground import Ground
from tests.chaos.measure import Measured
from tests.chaos.outsider import Outsider
from tests.support.cluster import eventually
from tools.check_history.judge import Judgement, judge
from tools.check_history.reading import load as load_history
from tools.collect_history import collect

PROBES, PROBE_S, PULSE_S = 10, 1.0, 0.02
PULSE_EVERY_S = 0.1
PER_SECOND = 20.0
QUIET_WITHIN_S = 60.0
CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Probe:
    task_id: TaskId
    asked_at: datetime
    own: timedelta  # what it takes by itself

    def waited(self, task: Task, *, since: datetime) -> float:
        """Seconds from when it was asked for, or from a later moment, until it was done."""
        if task.error is not None and task.error.code == "poison":
            return 0.0  # it was on every worker that was taken down: not to be told from what did it
        if task.state.status is not SUCCESS or task.state.retry_count or task.state.completed_at is None:
            raise AssertionError(f"{task.spec.type} {task.id}: {task.state}, and nothing was wrong with it")
        return (task.state.completed_at - self.own - max(self.asked_at, since)).total_seconds()


class Run:
    def __init__(
        self, ground: Ground, client: Client, *, node: Node, history: History, at_work: Sequence[asyncio.Task[None]]
    ) -> None:
        self._ground = ground
        self._client = client
        self._node = node
        self._history = history
        self._at_work = at_work  # who asks for tasks first, then who finishes what was deferred
        self._measured: list[Measured] = []

    @property
    def measured(self) -> list[Measured]:
        return [*self._measured, *self._ground.noted]

    async def live_through(self, fault: Fault) -> Measured:
        """Bring a fault, heal it, and see how long what was asked for had to wait for its end."""
        probes = [await self._probe("slow", PROBE_S) for _ in range(PROBES)]
        await self._wait_until_begun(probes)
        self._history.note("fault", type="begin", name=fault.name)
        began_at = CLOCK.now()
        is_over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pulse(probes, is_over))
            try:
                async with fault.bring(self._ground):
                    await asyncio.sleep(fault.held_s)
                healed_at = CLOCK.now()
                self._history.note("fault", type="end", name=fault.name)
                await asyncio.sleep(fault.rest_s)
            finally:
                is_over.set()
        seconds = await self._measure(probes, since=healed_at if fault.from_end else began_at, loses=fault.loses)
        self._measured.append(Measured(fault.name, seconds, fault.bound_s, since=fault.since))
        return self._measured[-1]

    async def _probe(self, kind: str, seconds: float) -> Probe:
        asked_at = CLOCK.now()
        return Probe(
            TaskId(int(await self._client.submit(kind, seconds=seconds))), asked_at, timedelta(seconds=seconds)
        )

    async def _pulse(self, probes: list[Probe], is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            probes.append(await self._probe("quick", PULSE_S))
            await asyncio.sleep(PULSE_EVERY_S)

    async def _wait_until_begun(self, probes: Sequence[Probe]) -> None:
        async def look() -> bool | None:
            live = await self._node.store.tasks.find_live([probe.task_id for probe in probes])
            return None if any(one.state.status.is_waiting for one in live) else True

        await eventually(look, "the probes to begin", patience_s=PATIENCE_S)

    async def _measure(self, asked: Sequence[Probe], *, since: datetime, loses: bool) -> float:
        probes = [probe for probe in asked if str(probe.task_id) not in self._client.lost]
        await wait_for_all(self._node, [str(probe.task_id) for probe in probes], patience_s=PATIENCE_S)
        found = await self._node.store.tasks.load([probe.task_id for probe in probes])
        if loses and not any(task.state.attempt > 1 for task in found.values()):
            raise NotInEffectError("nothing ran on it")
        return max(0.0, *(probe.waited(found[probe.task_id], since=since) for probe in probes))

    async def settle(self) -> None:
        """Ask for nothing more; until everything has ended, and the coordinator has forgotten it."""
        self._client.is_enough = True
        await self._at_work[0]
        await wait_for_all(self._node, self._client.task_ids, patience_s=PATIENCE_S)

        async def look() -> bool | None:
            depths = await self._node.coordinator.queue.depths()
            left = [*depths.in_flight.values(), *depths.assigned.values(), *depths.ready.values(), depths.delayed]
            return None if any(left) else True

        with suppress(AssertionError):  # the checker says it better
            await eventually(look, "the coordinator to be empty", patience_s=QUIET_WITHIN_S)

    async def end(self) -> None:
        for one in self._at_work:
            one.cancel()
        await asyncio.gather(*self._at_work, return_exceptions=True)

    async def judge(self) -> Judgement:
        await self.end()
        await collect(self._node, self._history)
        return judge(load_history(self._ground.cluster.histories))


@asynccontextmanager
async def a_run(ground: Ground, *, seed: int, per_second: float = PER_SECOND) -> AsyncIterator[Run]:
    """Steady load through the proxies; whoever looks on is connected past them."""
    folder: Path = ground.cluster.histories
    ground.cluster.ledger.touch()
    (folder / "ledger.jsonl").symlink_to(ground.cluster.ledger)
    history = History("client", CLOCK, write=to_file(folder / "client.jsonl"))
    plan = plan_for(ground.servers.settings(), None, app=None, tasks=TaskRegistry())
    async with open_node(plan) as node, rota.Rota(ground.cluster.settings, roles=()) as connection:
        chance = random.Random(seed)
        client = ground.client = Client(connection, history, watch=node, chance=chance)
        _, client.token = await Tokens(node).issue(
            tenant_id=DEFAULT_TENANT, name="chaos", role=Role.OPERATOR, expires_in=None, actor=None
        )
        outsider = Outsider(connection, history, ledger=ground.cluster.ledger, chance=chance)
        at_work = [asyncio.create_task(client.load(per_second)), asyncio.create_task(outsider.run())]
        run = Run(ground, client, node=node, history=history, at_work=at_work)
        try:
            yield run
        finally:
            await run.end()
