"""How long a process could trust that it may grant, as its history tells."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rota.application.elect import ElectionSettings
from rota.application.ports.coordinator import Assistance, Coordinator
from rota.application.ports.store import Store
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.infrastructure.coordination.memory import memory_coordinator
from rota.infrastructure.store.memory.store import memory_store
from rota.infrastructure.telemetry.history import History, recorded
from rota.testing.virtual_time import VirtualClock
from tests.support.builders import a_new_task, a_state
from tests.support.virtual import pass_time, virtually

NODE = NodeId("node")
SETTINGS = ElectionSettings()
TTL, TRUSTED_S = SETTINGS.ttl, (SETTINGS.ttl - SETTINGS.margin).total_seconds()
NEVER = float("-inf")


@dataclass
class Watched:
    """A store and a coordinator whose use is written down."""

    clock: VirtualClock
    store: Store
    coordinator: Coordinator
    assistance: Assistance
    lines: list[Mapping[str, Any]] = field(default_factory=list)

    async def grant(self, task_id: int) -> float:
        """Until when this could be trusted, from now on."""
        await self.store.tasks.add([a_new_task(task_id, state=a_state(task_id))])
        (live,) = await self.store.tasks.find_live([TaskId(task_id)])
        step = live.state.granted(WorkerId(1), term=1, at=self.clock.now(), timeout=live.timeout)
        await self.store.tasks.advance([step])
        return float(self.lines[-1]["trusted_until"]) - self.clock.monotonic()


def watched() -> Watched:
    clock = VirtualClock(asyncio.get_running_loop())
    lines: list[Mapping[str, Any]] = []
    history = History("process", clock, write=lines.append)
    inner = memory_store(clock), memory_coordinator(clock)
    store, coordinator = recorded(*inner, history=history, election=SETTINGS)
    assert coordinator.assistance is not None
    return Watched(clock, store, coordinator, coordinator.assistance, lines)


@virtually
async def test_a_leader_is_trusted_as_such_whatever_its_seat_says() -> None:
    it = watched()
    seat = await it.assistance.join(NODE, TTL)
    lease = await it.coordinator.election.campaign(NODE, TTL)
    assert lease is not None
    await it.store.terms.begin(NODE)
    await pass_time(TRUSTED_S - 1)
    await it.assistance.renew(NODE, seat)
    assert await it.grant(1) == 1
    await it.coordinator.election.resign(NODE, lease)
    assert await it.grant(2) == TRUSTED_S


@virtually
async def test_who_has_not_begun_a_term_yet_is_trusted_as_an_assistant() -> None:
    it = watched()
    await it.coordinator.election.campaign(NODE, TTL)
    await pass_time(1)
    await it.assistance.join(NODE, TTL)
    assert await it.grant(1) == TRUSTED_S


@virtually
async def test_who_has_left_its_seat_is_not_trusted() -> None:
    it = watched()
    await it.assistance.leave(NODE, await it.assistance.join(NODE, timedelta(days=1)))
    assert await it.grant(1) == NEVER
