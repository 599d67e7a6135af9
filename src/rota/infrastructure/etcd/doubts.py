"""Calls that wait for an answer which will not come, found out by asking the member about itself.

etcd answers a write once it is applied. One that was handed on to a leader that has just died is neither applied nor
refused: the member lets it wait for seconds. A member that is frozen, or behind a dead cable, says nothing at all, and
nothing breaks the connection to it. So when a call has waited for a while, the member is asked how it stands, which it
can tell without the others. If it does not tell, all that is under way there is given up, watches too, and others are
asked from then on. If it has no leader, or a newer one than when a call was sent, that call is given up. What becomes
of it is unknown, as it would be after its deadline; but its caller may ask again now.

One member alone is never doubted: there is nobody else to ask.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import grpc.aio

from rota._proto.etcd import wire_pb2 as wire
from rota.application.ports.system import Clock


class Cancellable(Protocol):
    def cancel(self) -> Any: ...


@dataclass(slots=True, eq=False)
class Waiting:
    """A call that is under way."""

    call: Cancellable
    since: float
    term: int  # of etcd's leader, as far as any member had told by then; 0: none had
    is_given_up: bool = False

    def give_up(self) -> None:
        self.is_given_up = True
        self.call.cancel()


@dataclass(slots=True, eq=False)
class Member:
    """What is under way at one member."""

    calls: dict[Waiting, None] = field(default_factory=dict)  # the oldest first
    streams: set[Waiting] = field(default_factory=set)  # those that were answered once, and may now be silent


class Doubts:
    """Looks after the calls of one client."""

    def __init__(
        self, clock: Clock, within: timedelta, *, ask: Callable[[Any], Awaitable[wire.StatusResponse]]
    ) -> None:
        self._clock = clock
        self._after = within / 10
        self._silence = within / 3
        self._ask = ask
        self._term = 0  # the newest that was heard of
        self._looking: dict[Member, asyncio.Task[None]] = {}

    def begin(self, member: Member, call: Cancellable, *, leave: Callable[[], None]) -> Waiting:
        """A call is under way, until it is taken out of `member.calls`; `leave` is called if the member is not well."""
        waiting = Waiting(call, self._clock.monotonic(), self._term)
        member.calls[waiting] = None
        if member not in self._looking:
            self._looking[member] = asyncio.create_task(self._look_after(member, leave))
        return waiting

    def hear(self, term: int) -> None:
        """A member has answered while etcd's leader had this term."""
        if term > self._term:
            self._term = term

    async def close(self) -> None:
        looking = list(self._looking.values())
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)

    async def _look_after(self, member: Member, leave: Callable[[], None]) -> None:
        try:
            while member.calls:
                waited = timedelta(seconds=self._clock.monotonic() - next(iter(member.calls)).since)
                if waited >= self._after:
                    await self._inquire(member, leave)
                    waited = timedelta(0)
                await self._clock.sleep(self._after - waited)
        finally:
            del self._looking[member]

    async def _inquire(self, member: Member, leave: Callable[[], None]) -> None:
        try:
            async with asyncio.timeout(self._silence.total_seconds()):
                status = await self._ask(member)
        except TimeoutError:
            self._give_up([*member.calls, *member.streams], leave)
            return
        except (grpc.aio.AioRpcError, grpc.aio.UsageError):
            return  # the connection is broken, and so are its calls
        self.hear(status.header.raft_term)
        if not status.leader:
            self._give_up(list(member.calls), leave)
        for waiting in list(member.calls):
            if 0 < waiting.term < status.header.raft_term:
                waiting.give_up()

    def _give_up(self, some: list[Waiting], leave: Callable[[], None]) -> None:
        for waiting in some:
            waiting.give_up()
        leave()
