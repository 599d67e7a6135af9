"""Cancel requests on both sides where possible, and events of both.

A listener hears both sides at once, because publishers may use either. It survives the loss of one, which is tried
again every second: what was published there meanwhile is missed, as by anyone who does not listen. Only when neither
can be heard is it told.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event
from rota.domain.ids import TaskId
from rota.infrastructure.coordination.event_buffer import EventBuffer
from rota.infrastructure.coordination.failover.switch import Side, Switch

LISTEN_AGAIN = timedelta(seconds=1)


class FailoverSignals:
    def __init__(self, switch: Switch) -> None:
        self._switch = switch

    async def request_cancel(self, task_ids: Sequence[TaskId], *, ttl: timedelta) -> None:
        async def act(side: Side) -> None:
            await side.coordinator.signals.request_cancel(task_ids, ttl=ttl)

        await self._switch.call(act)
        if task_ids:
            await self._switch.spare(self._switch.other, act)

    async def find_cancelled(self, task_ids: Sequence[TaskId]) -> frozenset[TaskId]:
        async def act(side: Side) -> frozenset[TaskId]:
            return await side.coordinator.signals.find_cancelled(task_ids)

        found = await self._switch.call(act)
        if self._switch.is_in_doubt:
            found |= await self._switch.spare(self._switch.other, act) or frozenset()
        return found

    async def publish(self, events: Sequence[Event]) -> None:
        await self._switch.call(lambda side: side.coordinator.signals.publish(events))

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[Event]]:
        ears = _Ears(self._switch)
        listening = [asyncio.create_task(ears.listen(side)) for side in (self._switch.primary, self._switch.fallback)]
        try:
            await ears.wait_until_open()
            yield ears.buffer
        finally:
            for one in listening:
                one.cancel()
            await asyncio.gather(*listening, return_exceptions=True)


class _Ears:
    """One subscription to each side, into one buffer."""

    def __init__(self, switch: Switch) -> None:
        self.buffer = EventBuffer()
        self._switch = switch
        self._hearing: set[Side] = set()
        self._has_ended = False
        self._unknown = {side for side in (switch.primary, switch.fallback) if switch.may_ask(side)}
        self._is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait_until_open(self) -> None:
        """Until each side that can be expected to answer has: what is published from now on is heard.

        Raises when none of them can be heard."""
        await self._is_open

    async def listen(self, side: Side) -> None:
        while not self._has_ended:
            try:
                async with side.coordinator.signals.subscribe() as events:
                    self._note(side, is_heard=True)
                    async for event in events:
                        self.buffer.put(event)
            except CoordinatorUnavailableError as exc:
                self._note(side, is_heard=False, failure=exc)
            except Exception as exc:  # whatever ends the reading must reach the listener, or it would wait for ever
                self._end(exc)
            await self._switch.clock.sleep(LISTEN_AGAIN)

    def _note(self, side: Side, *, is_heard: bool, failure: CoordinatorUnavailableError | None = None) -> None:
        self._unknown.discard(side)
        (self._hearing.add if is_heard else self._hearing.discard)(side)
        if failure is not None and not self._hearing | self._unknown:
            self._end(failure)
        elif not self._unknown and not self._is_open.done():
            self._is_open.set_result(None)

    def _end(self, failure: Exception) -> None:
        self._has_ended = True
        self.buffer.fail(failure)
        if not self._is_open.done():
            self._is_open.set_exception(failure)
