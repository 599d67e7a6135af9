"""Every coordinator keeps the contract."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.testing.contract.coordinator import (
    CoordinatorBackend,
    TestDelayed,
    TestDeliveries,
    TestElection,
    TestGeneration,
    TestLocks,
    TestSignals,
    TestTaskQueue,
    TestWorkerPool,
)
from tests.contract.coordinator_backends import BACKENDS
from tests.contract.failover_backends import FAILOVER_BACKENDS

__all__ = [
    "TestDelayed",
    "TestDeliveries",
    "TestElection",
    "TestGeneration",
    "TestLocks",
    "TestSignals",
    "TestTaskQueue",
    "TestWorkerPool",
]

ALL = {**BACKENDS, **FAILOVER_BACKENDS}
# Whatever is behind it, a failover asks the same of it: the pairs in memory show most of what can go wrong.
LATER = [pytest.param(name, marks=pytest.mark.slow) for name in ALL if name.startswith("failover-redis")]


@pytest.fixture(params=[*(name for name in ALL if not name.startswith("failover-redis")), *LATER])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[CoordinatorBackend]:
    before = asyncio.all_tasks()
    async with ALL[request.param](request) as opened:
        yield opened
    assert asyncio.all_tasks() - before <= {asyncio.current_task()}, "the adapter left tasks behind"
