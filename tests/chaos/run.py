"""One run: steady load, one fault after the other, each measured; then quiet, and the judgement of all of it."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import rota
from rota.application.node import Node
from rota.application.ports.system import System
from rota.config.load import Sources, load
from rota.config.registry import Registries
from rota.config.wiring import Blueprint, open_node
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.infrastructure.telemetry.history import History, to_file
from rota.sdk.tasks import TaskRegistry
from tests.chaos.client import Client, dump, wait_for_all
from tests.chaos.faults import Fault
from tests.chaos.ground import Ground
from tests.support.cluster import SHARED, eventually
from tools.check_history.history import load as load_history
from tools.check_history.judge import Judgement, judge

PROBES = 10
SLACK_S = 3.0  # what a busy machine of two cores adds
PATIENCE_S = 120.0
QUIET_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a fault cost."""

    fault: Fault
    seconds: float

    @property
    def is_in_time(self) -> bool:
        return self.seconds <= self.fault.bound_s * SHARED + SLACK_S


class Run:
    def __init__(self, ground: Ground, client: Client, *, node: Node, history: History, per_second: float) -> None:
        self._ground = ground
        self._client = client
        self._load = asyncio.create_task(client.load(per_second))
        self._node = node
        self._history = history
        self.recoveries: list[Recovery] = []

    async def live_through(self, fault: Fault) -> Recovery:
        """Bring a fault, heal it, and see how long it took until all that was asked had ended."""
        before = [await self._client.submit("slow", seconds=0.5) for _ in range(PROBES)]
        self._history.note("fault", type="begin", name=fault.name)
        began_at = time.monotonic()
        async with asyncio.TaskGroup() as group:
            async with fault.bring(self._ground):
                watching = group.create_task(self._watch(before))
                await asyncio.sleep(fault.held_s)
            healed_at = time.monotonic()
            self._history.note("fault", type="end", name=fault.name)
        ended_at = watching.result()
        recovery = Recovery(fault, ended_at - (healed_at if fault.from_end else began_at))
        self.recoveries.append(recovery)
        return recovery

    async def _watch(self, before: Sequence[str]) -> float:
        """When the probes of before and of during the fault have all ended."""
        during = [await self._client.submit("quick") for _ in range(PROBES)]
        await wait_for_all(self._node, [*before, *during], patience_s=PATIENCE_S)
        return time.monotonic()

    async def settle(self) -> None:
        """Ask for nothing more; until everything has ended, and the coordinator has forgotten it."""
        await self.end_load()
        await wait_for_all(self._node, self._client.task_ids, patience_s=PATIENCE_S)

        async def look() -> bool | None:
            depths = await self._node.coordinator.queue.depths()
            left = [*depths.in_flight.values(), *depths.assigned.values(), *depths.ready.values(), depths.delayed]
            return None if any(left) else True

        with suppress(AssertionError):  # the checker says it better
            await eventually(look, "the coordinator to be empty", patience_s=QUIET_WITHIN_S)

    async def end_load(self) -> None:
        self._load.cancel()
        await asyncio.gather(self._load, return_exceptions=True)

    async def judge(self) -> Judgement:
        await dump(self._node, self._history)
        return judge(load_history(self._ground.cluster.histories))


@asynccontextmanager
async def a_run(ground: Ground, *, seed: int, per_second: float) -> AsyncIterator[Run]:
    """Steady load through the proxies; whoever looks on is connected past them."""
    folder: Path = ground.cluster.histories
    ground.cluster.ledger.touch()
    (folder / "ledger.jsonl").symlink_to(ground.cluster.ledger)
    history = History("client", SystemClock(), write=to_file(folder / "client.jsonl"))
    async with open_node(_plan(ground.direct)) as node, rota.Rota(ground.cluster.settings, roles=()) as connection:
        client = Client(connection, history, chance=random.Random(seed))
        run = Run(ground, client, node=node, history=history, per_second=per_second)
        try:
            yield run
        finally:
            await run.end_load()


def _plan(settings: dict[str, object]) -> Blueprint:
    flat = {f"{part}.{name}": value for part, fields in settings.items() for name, value in dict(fields).items()}  # type: ignore[call-overload]
    return Blueprint(
        settings=load(Sources(flags=flat, folder=Path("/dev/null"))).settings,
        system=System(SystemClock(), SystemRandom()),
        registries=Registries(),
        tasks=TaskRegistry(),
    )


def table(recoveries: Sequence[Recovery]) -> str:
    """Fault, measured, bound: the worst of each."""
    worst: dict[str, Recovery] = {}
    for one in recoveries:
        known = worst.get(one.fault.name)
        worst[one.fault.name] = one if known is None or one.seconds > known.seconds else known
    lines = ["| fault | measured, s | bound, s |", "|---|---:|---:|"]
    lines += [f"| {one.fault.name} | {one.seconds:.1f} | {one.fault.bound_s:.0f} |" for one in worst.values()]
    return "\n".join(lines)
