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
    TestSignals,
    TestTaskQueue,
    TestWorkerPool,
)
from tests.contract.coordinator_backends import BACKENDS

__all__ = [
    "TestDelayed",
    "TestDeliveries",
    "TestElection",
    "TestGeneration",
    "TestSignals",
    "TestTaskQueue",
    "TestWorkerPool",
]


@pytest.fixture(params=BACKENDS)
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[CoordinatorBackend]:
    before = asyncio.all_tasks()
    async with BACKENDS[request.param](request) as opened:
        yield opened
    assert asyncio.all_tasks() - before <= {asyncio.current_task()}, "the adapter left tasks behind"
