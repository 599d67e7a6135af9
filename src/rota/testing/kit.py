"""Your own tasks in your own tests: a whole Rota in memory, on virtual time.

    def test_an_order_is_retried_until_the_shop_answers():
        async def scenario(app: rota.Rota) -> None:
            handle = await app.submit("place_order", {"number": 7})
            task = await handle.wait("1h")  # an hour of retries passes at once
            assert (task.status, task.attempt) == ("SUCCESS", 3)

        rota.testing.run(scenario)

It is the real scheduler and the real worker; only the store, the coordinator and the clock are in memory, and functions
run right here: a coroutine on the test's own loop (so `asyncio.sleep` takes no time), a plain function as a plain call.
Nothing else may be awaited that takes real time, such as a network: on virtual time every timeout would pass meanwhile.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rota.application.ports.executor import Job, LogLevel, Reports
from rota.application.ports.system import Clock, System
from rota.domain.attempt import Failed, Outcome, TaskError
from rota.domain.durations import parse_duration
from rota.domain.task_config import TaskConfig
from rota.embedding import Rota
from rota.infrastructure.executors.local.lines import detail_of
from rota.sdk.async_handler import run_async
from rota.sdk.context import Context, Facts
from rota.sdk.control import Duration
from rota.sdk.handler import Handler
from rota.sdk.tasks import REGISTRY, TaskFunction, TaskRegistry, registry_of
from rota.testing.virtual_time import VirtualClock, run_virtually

if TYPE_CHECKING:
    from rota.config.wiring import Blueprint

T = TypeVar("T")

CAPACITY = 100
GUARD_EVERY = timedelta(
    minutes=5
)  # in one process nothing that is said gets lost; a virtual day is some thousand wakes
IN_MEMORY = {
    "store.url": "memory://",
    "coordinator.url": "memory://",
    "metrics.collector": "none",
    "scheduler.leader_ttl": "1h",  # several times as long as the pause between two signs of life
    "scheduler.renew_interval": "20m",
    "worker.lease": "1h",
}


def run(
    scenario: Callable[[Rota], Awaitable[T]],
    tasks: Iterable[TaskFunction[..., Any]] | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> T:
    """Run a scenario with the given tasks, or all that were decorated. The same seed gives the same run."""
    registry = REGISTRY if tasks is None else registry_of(tasks)

    async def main() -> T:
        clock = VirtualClock(asyncio.get_running_loop())
        async with Rota.of(_plan(clock, registry, settings=settings or {}, seed=seed)) as app:
            return await scenario(app)

    return run_virtually(main())


async def advance(duration: Duration) -> None:
    """Let virtual time pass; everything that is due happens on the way."""
    await asyncio.sleep(parse_duration("duration", duration).total_seconds())  # noqa: TID251 virtual


def _plan(clock: VirtualClock, registry: TaskRegistry, *, settings: Mapping[str, Any], seed: int) -> "Blueprint":
    from rota.config.embedded import flatten
    from rota.config.load import Sources, load
    from rota.config.registry import Registries
    from rota.config.wiring import Blueprint

    wanted = {"worker.capacity": CAPACITY} | flatten(settings) | IN_MEMORY
    registries = Registries()
    registries.executors.register("local", lambda around: InlineExecutor(registry, around.clock))
    return Blueprint(
        settings=load(Sources(flags=wanted, folder=Path(os.devnull), program="the settings given")).settings,
        system=System(clock, SeededRandom(seed), GUARD_EVERY),
        registries=registries,
        tasks=registry,
    )


class SeededRandom:
    """Chance that can be repeated."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self) -> float:
        return self._random.random()


class InlineExecutor:
    """Runs functions on the loop that runs everything else."""

    def __init__(self, registry: TaskRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    async def start(self) -> None:
        """There is nothing to start."""

    def supports(self, config: TaskConfig) -> bool:
        return self._registry.find(config.type) is not None

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        spec = job.task.spec
        function = self._registry.find(spec.type)
        if function is None:
            return Failed(TaskError("function_not_found", f"no task {spec.type!r} was given to the test"))
        facts = Facts(
            task_id=str(spec.id),
            type=spec.type,
            attempt=job.attempt.number,
            retry_count=job.task.state.retry_count,
            metadata=dict(spec.metadata),
            deadline=job.deadline,
            callback=job.callback,
        )
        context = Context(facts, DirectChannel(reports, self._clock))
        handler = Handler(function.function)
        if function.is_async:
            return await run_async(handler, spec.payload, context=context)
        return handler.run(spec.payload, context)

    async def close(self) -> None:
        """There is nothing to end."""


class DirectChannel:
    """From the function straight to the worker: both are on one loop."""

    def __init__(self, reports: Reports, clock: Clock) -> None:
        self._reports = reports
        self._clock = clock

    def log(self, level: str, message: str, *, fields: Mapping[str, Any]) -> None:
        self._reports.log(str(message), level=LogLevel(level), detail=detail_of(fields))

    def progress(self, fraction: float, message: str) -> None:
        self._reports.progress(fraction, message)

    def is_cancelled(self) -> bool:
        return False  # a plain function holds the loop, a coroutine is cancelled: neither could see it

    def monotonic(self) -> float:
        return self._clock.monotonic()
