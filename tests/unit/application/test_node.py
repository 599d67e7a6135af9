"""Joining the cluster."""

import pytest

from rota.application.node import join
from rota.application.ports.metrics import NoMetrics
from rota.application.ports.system import System
from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import NodeId
from rota.testing.faults import Fault
from tests.support.virtual import Bench, FixedChance, a_bench, virtually


async def join_beside(bench: Bench) -> None:
    await join(
        NodeId("other"),
        bench.node.store,
        coordinator=bench.node.coordinator,
        system=System(bench.clock, FixedChance()),
        collector=NoMetrics(),
    )


@virtually
async def test_a_node_that_has_joined_knows_the_time_and_has_ids() -> None:
    bench = await a_bench("a")
    assert bench.node.time.now() == bench.clock.now()
    assert bench.node.ids.next() < bench.node.ids.next()


@pytest.mark.parametrize("needed", ["tasks.now", "slots.lease"])
@virtually
async def test_without_the_store_nobody_joins(needed: str) -> None:
    bench = await a_bench()
    bench.faults.inject(needed, Fault.GONE)
    with pytest.raises(StoreUnavailableError):
        await join_beside(bench)
