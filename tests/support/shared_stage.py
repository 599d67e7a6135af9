"""A stage on which schedulers dispatch at once: the leader's dispatcher, and an assistant on another node."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from rota.application.assist import Assistant
from rota.application.elect import ElectionSettings
from rota.application.ids import LeasedIds
from rota.application.node import Node
from rota.application.places import Places
from rota.application.ports.coordinator import Assistance, Holder
from rota.application.seat import Seat
from rota.domain.ids import NodeId, WorkerId
from rota.testing.contract.coordinator_backend import make_pages
from rota.testing.virtual_time import run_virtually
from tests.support.stage import TERM, Even, Stage

LEADER, HELPER = NodeId("leader"), NodeId("helper")
DISTRUST_FOR = timedelta(seconds=15)


class SharedStage(Stage):
    def __init__(self) -> None:
        super().__init__()
        assert self.coordinator.assistance is not None
        assert self.calm.assistance is not None
        self.calm_assistance: Assistance = self.calm.assistance
        self._assistance: Assistance = self.coordinator.assistance
        self.seat = self._make_seat(HELPER)
        self.leader_seat = self._make_seat(LEADER)
        self.dispatcher.share(Places(self.leader_seat, self.figures, LEADER))
        self.assistant = Assistant(self._make_node(), self.seat, distrust_for=DISTRUST_FOR)

    async def begin(self, *, generation: str = "first") -> None:
        """There is a leader's term, and the coordinator has its memory."""
        while await self.truth.terms.find_last() < TERM:
            await self.truth.terms.begin(LEADER)
        await self.calm.queue.rebuild(generation, make_pages())

    @asynccontextmanager
    async def assisting(self) -> AsyncIterator["asyncio.Task[None]"]:
        """The assistant is at work meanwhile; what can be granted at once is granted before the block begins."""
        await self.time.sync()
        seat, run = asyncio.create_task(self.seat.run()), asyncio.create_task(self.assistant.run())
        try:
            await self.pass_time(1.01)  # it rests until it has its seat
            yield run
        finally:
            for one in (run, seat):
                one.cancel()
                await asyncio.gather(one, return_exceptions=True)

    async def reserve_elsewhere(self, worker_id: int, number: int) -> None:
        """A third scheduler is faster."""
        seat = await self.calm_assistance.join(NodeId("third"), timedelta(days=1))
        since = (await self.calm.queue.depths()).as_of
        await self.calm_assistance.reserve(Holder("third", seat), {WorkerId(worker_id): number}, since=since)

    async def passed_on(self) -> list[int]:
        """What waits for the leader; it is taken by looking."""
        return list(await self.calm_assistance.take_passed(10_000))

    async def reserved(self) -> dict[WorkerId, dict[str, int]]:
        return {worker_id: dict(holders) for worker_id, holders in (await self.calm.queue.depths()).reserved.items()}

    def _make_seat(self, node_id: NodeId) -> Seat:
        return Seat(
            assistance=self._assistance,
            coordinator=self.coordinator,
            terms=self.store.terms,
            loops=self.loops,
            node_id=node_id,
            settings=ElectionSettings(),
        )

    def _make_node(self) -> Node:
        return Node(
            id=HELPER,
            store=self.store,
            coordinator=self.coordinator,
            clock=self.clock,
            random=Even(),
            collector=self.figures,
            ids=LeasedIds(self.store.slots, self.clock, node_id=HELPER),
            time=self.time,
            configs=self.configs,
            loops=self.loops,
            callback_key=b"",
        )


def shared(play: Callable[[SharedStage], Awaitable[None]]) -> Callable[[], None]:
    """A test on a stage of its own, on virtual time."""

    async def main() -> None:
        stage = SharedStage()
        await stage.begin()
        await play(stage)

    def test() -> None:
        run_virtually(main())

    test.__name__ = play.__name__
    return test
