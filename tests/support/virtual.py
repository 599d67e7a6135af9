"""Tests on virtual time, with a node on memory adapters."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from rota.application.node import Node, join
from rota.application.ports.system import System
from rota.domain.ids import NodeId
from rota.infrastructure.coordination.memory import memory_coordinator
from rota.infrastructure.store.memory.store import memory_store
from rota.testing.faults import Faults
from rota.testing.faulty_coordinator import faulty_coordinator
from rota.testing.faulty_store import faulty_store
from rota.testing.virtual_time import VirtualClock, run_virtually
from tests.support.figures import Figures

P = ParamSpec("P")
T = TypeVar("T")


def virtually(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Run an async test on virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_virtually(test(*args, **kwargs))

    return run


async def pass_time(seconds: float = 0) -> None:
    """Let virtual time pass; 0 lets everyone who can run have a turn."""
    await asyncio.sleep(seconds)


class FixedChance:
    """Chance that always falls the same way."""

    def __init__(self, value: float = 0.5) -> None:
        self.value = value

    def chance(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Bench:
    """A node on memory adapters that fail to order."""

    node: Node
    clock: VirtualClock
    faults: Faults
    figures: Figures


async def a_bench(name: str = "node") -> Bench:
    clock, faults, figures = VirtualClock(asyncio.get_running_loop()), Faults(), Figures()
    node = await join(
        NodeId(name),
        faulty_store(memory_store(clock), faults),
        coordinator=faulty_coordinator(memory_coordinator(clock), faults),
        system=System(clock, FixedChance()),
        collector=figures,
    )
    return Bench(node, clock, faults, figures)
