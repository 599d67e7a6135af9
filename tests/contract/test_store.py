"""Every store keeps the contract."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from rota.testing.contract.store import (
    StoreBackend,
    TestAdd,
    TestAdvance,
    TestAudit,
    TestAuditOfConfigs,
    TestAuditOfTasks,
    TestAuditOfTokens,
    TestCalendars,
    TestCalendarUse,
    TestClock,
    TestConfigs,
    TestCounts,
    TestDeleteConfig,
    TestExpectedRevision,
    TestFind,
    TestFire,
    TestFireRuns,
    TestIdempotencyKey,
    TestListComingSchedules,
    TestListDue,
    TestListDueSchedules,
    TestListHeld,
    TestListLive,
    TestListOverdue,
    TestListPage,
    TestListRunning,
    TestLogs,
    TestNodes,
    TestOutcome,
    TestPaging,
    TestPurge,
    TestPurgeTokens,
    TestRevoke,
    TestRollUp,
    TestRollups,
    TestSecrets,
    TestStaleStep,
    TestTaskFacts,
    TestTerms,
    TestTokens,
    TestTwoNodes,
    TestWorkers,
)
from rota.testing.contract.store import TestSlots as SlotContract
from tests.contract.store_backends import BACKENDS, make_schema
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.postgres import PostgresServer

__all__ = [
    "TestAdd",
    "TestAdvance",
    "TestAudit",
    "TestAuditOfConfigs",
    "TestAuditOfTasks",
    "TestAuditOfTokens",
    "TestCalendarUse",
    "TestCalendars",
    "TestClock",
    "TestConfigs",
    "TestCounts",
    "TestDeleteConfig",
    "TestExpectedRevision",
    "TestFind",
    "TestFire",
    "TestFireRuns",
    "TestIdempotencyKey",
    "TestListComingSchedules",
    "TestListDue",
    "TestListDueSchedules",
    "TestListHeld",
    "TestListLive",
    "TestListOverdue",
    "TestListPage",
    "TestListRunning",
    "TestLogs",
    "TestNodes",
    "TestOutcome",
    "TestPaging",
    "TestPurge",
    "TestPurgeTokens",
    "TestRevoke",
    "TestRollUp",
    "TestRollups",
    "TestSecrets",
    "TestSlots",
    "TestStaleStep",
    "TestTaskFacts",
    "TestTerms",
    "TestTokens",
    "TestTwoNodes",
    "TestWorkers",
]


class TestSlots(SlotContract):
    @pytest.mark.slow  # a thousand leases, each its own commit
    async def test_when_all_slots_are_taken_the_next_node_is_refused(self, backend: StoreBackend) -> None:
        await super().test_when_all_slots_are_taken_the_next_node_is_refused(backend)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables and nothing in them."""
    path = tmp_path_factory.mktemp("store") / "template.db"
    make_schema(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def mariadb_url(mariadb_server: MariaDbServer) -> str:
    mariadb_server.create_database("contract")
    return make_schema(mariadb_server.url("contract"))


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    # Sorted as people sort, as many installations are: what must be in the order of code points has to say so.
    postgres_server.execute(
        "CREATE DATABASE contract LOCALE_PROVIDER icu ICU_LOCALE 'en-US' TEMPLATE template0", database="postgres"
    )
    return make_schema(postgres_server.url("contract"))


@pytest.fixture(params=BACKENDS)
def opened(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[StoreBackend]:
    return BACKENDS[request.param](request)


@pytest.fixture
async def backend(opened: AbstractAsyncContextManager[StoreBackend]) -> AsyncIterator[StoreBackend]:
    before = asyncio.all_tasks()
    async with opened as empty:
        yield empty
    assert asyncio.all_tasks() - before <= {asyncio.current_task()}, "the adapter left tasks behind"
