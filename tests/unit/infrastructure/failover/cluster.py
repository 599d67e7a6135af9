"""Processes on two memories, on virtual time: each has its own way to either memory, which can be cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from rota.application import metrics
from rota.application.loop import Loops
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import Metric, NoMetrics
from rota.infrastructure.coordination.failover.coordinator import failover_coordinator
from rota.infrastructure.coordination.memory import MemoryState, join_memory
from rota.infrastructure.system import SystemRandom
from rota.testing.faulty_coordinator import faulty_coordinator
from rota.testing.virtual_time import VirtualClock
from tests.support.outage import Outage

BACK_S = 5  # a primary that answers again is in use after this


class Gauges(NoMetrics):
    """Remembers whether the fallback is said to be in use."""

    fallback: float | None = None

    def put(self, gauge: Metric, *labels: str, value: float) -> None:
        if gauge is metrics.COORDINATOR_FALLBACK:
            self.fallback = value


@dataclass(frozen=True, slots=True)
class Process:
    """One process, and its ways to both memories."""

    node: Coordinator
    primary_way: Outage
    fallback_way: Outage
    gauges: Gauges = field(default_factory=Gauges)
    switches: list[bool] = field(default_factory=list)


class Cluster:
    """What all processes share."""

    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.primary = MemoryState(self.clock)
        self.fallback = MemoryState(self.clock)

    @asynccontextmanager
    async def start(self) -> AsyncIterator[Process]:
        ways, gauges, switches = (Outage(), Outage()), Gauges(), list[bool]()
        primary = faulty_coordinator(join_memory(self.primary), ways[0])
        fallback = faulty_coordinator(join_memory(self.fallback), ways[1])
        loops = Loops(self.clock, SystemRandom(), gauges)
        async with failover_coordinator(primary, fallback, loops=loops, on_switch=switches.append) as node:
            yield Process(node, *ways, gauges, switches)

    async def pass_time(self, seconds: float) -> None:
        await self.clock.sleep(timedelta(seconds=seconds))


async def switch_over(process: Process) -> None:
    """Cut a process off from the primary, and let it find out."""
    process.primary_way.begin()
    await process.node.queue.wake()


async def switch_back(cluster: Cluster, process: Process) -> None:
    """Open the way again, until the process uses it."""
    process.primary_way.end()
    await cluster.pass_time(BACK_S)
    assert process.switches[-1] is False
