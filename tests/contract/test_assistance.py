"""Every coordinator with which schedulers can dispatch at once keeps the contract for that."""

from collections.abc import AsyncIterator

import pytest

from rota.testing.contract.coordinator import CoordinatorBackend
from rota.testing.contract.coordinator_assistance import TestAssistantsWake, TestPassedOn, TestPlaces, TestSeats
from tests.contract.coordinator_backends import BACKENDS

__all__ = ["TestAssistantsWake", "TestPassedOn", "TestPlaces", "TestSeats"]


@pytest.fixture(params=["memory", "etcd"])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[CoordinatorBackend]:
    async with BACKENDS[request.param](request) as opened:
        yield opened
