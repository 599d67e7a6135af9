"""Nodes that stand still, or hear their answers late: wrappers around the parts that a node acts through."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import TypeVar

from rota.application.ports.coordinator import Election
from rota.application.ports.store import TermStore
from rota.domain.ids import NodeId
from rota.testing.virtual_time import VirtualClock

T = TypeVar("T")


class Gate:
    """While it is closed, a node stands still: like a process that was stopped, or a machine that sleeps."""

    def __init__(self) -> None:
        self._is_open = asyncio.Event()
        self._is_open.set()

    def close(self) -> None:
        self._is_open.clear()

    def open(self) -> None:
        self._is_open.set()

    async def passed(self, call: Callable[[], Awaitable[T]]) -> T:
        await self._is_open.wait()
        answer = await call()
        await self._is_open.wait()  # a node may also be paused between a call and its answer
        return answer


class GatedClock(VirtualClock):
    def __init__(self, inner: VirtualClock, gate: Gate) -> None:
        super().__init__(asyncio.get_running_loop())
        self._inner, self._gate = inner, gate

    async def sleep(self, duration: timedelta) -> None:
        await self._gate.passed(lambda: self._inner.sleep(duration))


class GatedElection:
    """An election behind a gate."""

    def __init__(self, inner: Election, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    async def campaign(self, node_id: NodeId, ttl: timedelta) -> int | None:
        return await self._gate.passed(lambda: self._inner.campaign(node_id, ttl))

    async def renew(self, node_id: NodeId, lease: int, *, ttl: timedelta) -> bool:
        return await self._gate.passed(lambda: self._inner.renew(node_id, lease, ttl=ttl))

    async def resign(self, node_id: NodeId, lease: int) -> None:
        await self._gate.passed(lambda: self._inner.resign(node_id, lease))

    async def find_leader(self) -> NodeId | None:
        return await self._inner.find_leader()

    async def wait_for_vacancy(self, wait: timedelta) -> bool:
        return await self._gate.passed(lambda: self._inner.wait_for_vacancy(wait))


class SlowElection(GatedElection):
    """An election that does at once what it is asked, and answers late."""

    def __init__(
        self,
        inner: Election,
        gate: Gate,
        *,
        clock: VirtualClock,
        campaigns: Iterable[float] = (),
        renewals: Iterable[float] = (),
    ) -> None:
        super().__init__(inner, gate)
        self._clock, self._campaigns, self._renewals = clock, list(campaigns), list(renewals)

    async def campaign(self, node_id: NodeId, ttl: timedelta) -> int | None:
        answer = await super().campaign(node_id, ttl)
        await self._clock.sleep(timedelta(seconds=self._campaigns.pop(0) if self._campaigns else 0))
        return answer

    async def renew(self, node_id: NodeId, lease: int, *, ttl: timedelta) -> bool:
        answer = await super().renew(node_id, lease, ttl=ttl)
        await self._clock.sleep(timedelta(seconds=self._renewals.pop(0) if self._renewals else 0))
        return answer


class GatedTerms:
    def __init__(self, inner: TermStore, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    async def begin(self, node_id: NodeId) -> int:
        return await self._gate.passed(lambda: self._inner.begin(node_id))

    async def find_last(self) -> int:
        return await self._inner.find_last()

    async def confirm(self, number: int) -> bool:
        return await self._gate.passed(lambda: self._inner.confirm(number))
