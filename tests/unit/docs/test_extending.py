"""The parts of `examples/extending.py`, which `docs/guides/extending.md` explains, do their work together."""

import rota
from examples.extending import SETTINGS, CountingMetrics, register
from rota.sdk.tasks import TaskRegistry


async def test_a_store_an_executor_a_balancer_and_a_collector_of_ones_own_run_a_task() -> None:
    collector = CountingMetrics()
    async with rota.Rota(SETTINGS, tasks=TaskRegistry(), registries=register(collector)) as app:
        loud, empty = await app.submit_many("shout", [{"words": "hello"}, {}])
        heard, failed = await loud.wait("10s"), await empty.wait("10s")
    assert heard.result is not None
    assert heard.result.data == "HELLO"
    assert failed.error is not None
    assert (failed.status, failed.error.code, failed.attempt) == ("FAILED", "nothing_to_say", 1)
    assert collector.counts["rota_tasks_created_total"] == 2
