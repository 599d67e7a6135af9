"""One seed, from an empty store to a judged history.

Most seeds are played in *safety mode*: whatever happens, no promise may be broken, and when all faults are over
everything must end. Every fourth is played in *liveness mode*: the servers and one pod at least are well again, other
pods and the network stay bad for good, and within its bounds the cluster must go on all the same.
"""

import asyncio
import gc
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rota.application.node import Node
from rota.application.reconcile import SETTLED
from rota.domain.errors import UnavailableError
from tests.simulation.border import AFTER_DEATH
from tests.simulation.client import Client
from tests.simulation.loop import run_simulated
from tests.simulation.nemesis import TROUBLE, Nemesis
from tests.simulation.process import Process
from tests.simulation.world import World
from tools.check_history.history import History, Line
from tools.check_history.judge import Judgement, judge

CLIENTS, REQUESTS = 3, 8  # each asks for so many tasks
LATER_REQUESTS, LATER = 10, 25.0  # and in liveness mode for so many more, within so many seconds
SETTLES_IN = 120.0  # after the last fault is over, everything must have ended


class Mode(StrEnum):
    SAFETY = "safety"
    LIVENESS = "liveness"


RECONCILE_EVERY = {Mode.SAFETY: 5.0, Mode.LIVENESS: 30.0}  # of an idle cluster's cost most; the latter is the default
# The last heartbeat tells what is held, the next comparison finds what is not, and the one after it clears that up.
QUIET_IN = RECONCILE_EVERY[Mode.SAFETY] + SETTLED.total_seconds() + 4


@dataclass(frozen=True, slots=True)
class Played:
    seed: int
    is_shared: bool
    judgement: Judgement
    lines: Sequence[Line]

    @property
    def command(self) -> str:
        return command_for(self.seed, is_shared=self.is_shared)


def command_for(seed: int, *, is_shared: bool) -> str:
    """What plays this very run again."""
    return f"make sim SEED={seed}{' SHARED=1' if is_shared else ''}"


def mode_of(seed: int) -> Mode:
    return Mode.LIVENESS if seed % 4 == 3 else Mode.SAFETY


def play(seed: int, *, is_shared: bool = False) -> Played:
    """Run one seed; nothing but the seed, and whether all pods dispatch, decides what happens."""

    async def main() -> World:
        unread: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: _note_unread(unread, context))
        mode = mode_of(seed)
        # Where a pod must stay well, no task may take it down.
        is_deadly = mode is Mode.SAFETY
        world = World(seed, reconcile_every=RECONCILE_EVERY[mode], has_deadly_tasks=is_deadly, is_shared=is_shared)
        await world.prepare()
        await (_prove_safety if mode is Mode.SAFETY else _prove_liveness)(world)
        if unread:
            again = command_for(seed, is_shared=is_shared)
            raise AssertionError(f"{again} shows a failure that nobody looked at: {unread[0]}")
        return world

    gc.disable()  # so much garbage is not made in one run, and looking for it takes a fifth of all time
    try:
        lines = run_simulated(main()).lines
        return Played(seed, is_shared, judge(History(lines)), lines)
    finally:
        gc.enable()


def _note_unread(unread: list[str], context: dict[str, Any]) -> None:
    """A failure that nobody looked at; those of killed processes are none."""
    failure = context.get("exception")
    if AFTER_DEATH not in str(failure):
        unread.append(f"{context['message']}: {failure!r}")


async def _prove_safety(world: World) -> None:
    await _live_through(world, Nemesis(world))
    await _wait_until(lambda: world.is_settled, SETTLES_IN)
    await asyncio.sleep(QUIET_IN)
    await asyncio.gather(*(pod.stop() for pod in world.pods))
    world.dump()
    await world.dump_coordinator()


async def _prove_liveness(world: World) -> None:
    nemesis = Nemesis(world)
    node = await _live_through(world, nemesis)
    await nemesis.condemn()
    await Client(world, node, name="later").run(LATER_REQUESTS, LATER)
    await _wait_until(lambda: world.is_settled, SETTLES_IN)
    world.dump()
    await asyncio.gather(*(pod.kill() for pod in world.pods))


async def _live_through(world: World, nemesis: Nemesis) -> Node:
    for pod in world.pods:
        pod.start()
    node = await _join(world.client)
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(Client(world, node, name=f"client{number}").run(REQUESTS, TROUBLE))
        group.create_task(nemesis.run())
    return node


async def _join(process: Process) -> Node:
    while True:
        with suppress(UnavailableError):
            return await process.join()


async def _wait_until(is_true: Callable[[], bool], seconds: float) -> None:
    for _ in range(int(seconds)):
        if is_true():
            return
        await asyncio.sleep(1)
