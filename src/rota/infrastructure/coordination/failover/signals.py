"""Cancel requests on both sides where possible, and events of both.

A listener hears both sides at once, because publishers may use either. It survives the loss of one, which is tried
again every second, and goes on there after what it heard last. Only when neither can be heard is it told.

Each side counts its own events. So the id of an event names the last one of either side, and who comes back goes on
with both. Of a side that was silent so far there is none; that matters only if it is the one in use by then: what was
published there in between may have been missed, and the listener is told so. If both sides say so, it is told twice.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event, Told
from rota.domain.ids import TaskId
from rota.infrastructure.coordination.event_buffer import EventBuffer, filled_by
from rota.infrastructure.coordination.failover.switch import Side, Switch

LISTEN_AGAIN = timedelta(seconds=1)
BETWEEN_IDS = "~"


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
    async def subscribe(self, *, after: str | None = None) -> AsyncIterator[AsyncIterator[Told]]:
        ears = _Ears(self._switch, after)
        async with filled_by(*(ears.listen(side) for side in (self._switch.primary, self._switch.fallback))):
            await ears.wait_until_open()
            yield ears.buffer


class _Ears:
    """One subscription to each side, into one buffer."""

    def __init__(self, switch: Switch, after: str | None) -> None:
        self.buffer = EventBuffer()
        self._switch = switch
        self._heard = dict(zip((switch.primary, switch.fallback), (after or "").split(BETWEEN_IDS), strict=False))
        if after is not None and not self._heard.get(switch.active):
            self._tell(switch.active, Told("", None))
        self._hearing: set[Side] = set()
        self._has_ended = False
        self._unknown = {side for side in (switch.primary, switch.fallback) if switch.may_ask(side)}
        self._is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait_until_open(self) -> None:
        """Until each side that can be expected to answer has: what is published from now on is heard.

        Raises when none of them can be heard."""
        await self._is_open

    async def listen(self, side: Side) -> None:
        has_missed = False
        while not self._has_ended:
            try:
                async with side.coordinator.signals.subscribe(after=self._heard.get(side) or None) as events:
                    self._note(side, is_heard=True)
                    if has_missed and not self._heard.get(side):
                        self._tell(side, Told("", None))
                    async for told in events:
                        self._tell(side, told)
            except CoordinatorUnavailableError as exc:
                self._note(side, is_heard=False, failure=exc)
            except Exception as exc:  # whatever ends the reading must reach the listener, or it would wait for ever
                self._end(exc)
            has_missed = True
            await self._switch.clock.sleep(LISTEN_AGAIN)

    def _tell(self, side: Side, told: Told) -> None:
        self._heard[side] = told.id
        ids = (self._heard.get(one, "") for one in (self._switch.primary, self._switch.fallback))
        self.buffer.put(Told(BETWEEN_IDS.join(ids), told.event))

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
