"""Parts of one's own in place of Rota's: a store, an executor, a balancer, a metrics collector.

`docs/guides/extending.md` explains it; `python examples/extending.py` runs it.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog

import rota
from rota.application.ports.executor import Job, Reports
from rota.application.ports.metrics import Metric, NoMetrics
from rota.application.ports.store import Store
from rota.config.registry import Registries, Surroundings
from rota.domain.attempt import Failed, Outcome, Succeeded, TaskError, TaskResult
from rota.domain.balancing import Draw, Need
from rota.domain.task_config import TaskConfig
from rota.domain.worker import Worker
from rota.infrastructure.store.memory.store import memory_store


class ShoutExecutor:
    """Runs tasks by shouting. An executor answers with an outcome; what it raises counts as a failed attempt."""

    async def start(self) -> None:
        """Open connections here; called once, before the first attempt."""

    def supports(self, config: TaskConfig) -> bool:
        return True

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        words = json.loads(job.task.spec.payload).get("words")
        if not words:
            return Failed(TaskError("nothing_to_say", "the payload has no words", retryable=False))
        reports.log("shouting")
        return Succeeded(TaskResult(data=json.dumps(words.upper())))

    async def close(self) -> None:
        """No attempt runs any more."""


def first_come(need: Need, workers: Sequence[Worker], *, draw: Draw) -> Worker:
    """The oldest worker that has room. Pure: no clock, no I/O, the same arguments give the same worker."""
    return workers[0]


class CountingMetrics(NoMetrics):
    """Counts what happens, and nothing else. A collector never blocks and never raises."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, counter: Metric, *labels: str, amount: float = 1) -> None:
        self.counts[counter.name] += int(amount)


@asynccontextmanager
async def open_my_store(around: Surroundings) -> AsyncIterator[Store]:
    """A store is an async context. This one is the store in memory; yours connects to around.settings.store.url."""
    store = memory_store(around.clock)
    await store.configs.put(TaskConfig(type="shout", executor_type="shout"))  # the executor that runs this type
    yield store


def register(collector: CountingMetrics) -> Registries:
    registries = Registries()
    registries.executors.register("shout", lambda around: ShoutExecutor())
    registries.balancers.register("first_come", first_come)
    registries.metrics.register("counting", lambda around: collector)
    registries.stores.register("mine", open_my_store)
    return registries


SETTINGS = {
    "store": {"url": "mine://"},
    "scheduler": {"balancer": "first_come"},
    "metrics": {"collector": "counting"},
}


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    collector = CountingMetrics()
    async with rota.Rota(SETTINGS, registries=register(collector)) as app:
        loud, empty = await app.submit_many("shout", [{"words": "hello"}, {}])
        heard = await loud.wait("10s")
        failed = await empty.wait("10s")
    print(heard.status, heard.result.data if heard.result else None)
    print(failed.status, failed.error.code if failed.error else None)
    print("tasks ended:", collector.counts["rota_tasks_ended_total"])


if __name__ == "__main__":
    asyncio.run(main())
