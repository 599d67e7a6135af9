"""The contract of the store port: every adapter passes it, ours and those of other packages.

To test an adapter, write a fixture named `backend` that yields a `StoreBackend` with no data, and import the classes
into a test module:

    from rota.testing.contract.store import *

pytest rewrites the assertions in here, for better messages, after
`pytest.register_assert_rewrite("rota.testing.contract")` in `conftest.py`. Needs pytest-asyncio.
"""

from rota.testing.contract.store_add import TestAdd, TestIdempotencyKey
from rota.testing.contract.store_advance import TestAdvance, TestOutcome, TestStaleStep
from rota.testing.contract.store_audit import TestAudit, TestAuditOfConfigs, TestAuditOfTasks, TestAuditOfTokens
from rota.testing.contract.store_backend import StoreBackend
from rota.testing.contract.store_calendars import TestCalendars, TestCalendarUse
from rota.testing.contract.store_configs import TestConfigs, TestDeleteConfig, TestExpectedRevision
from rota.testing.contract.store_counts import TestCounts, TestPurge
from rota.testing.contract.store_find import (
    TestClock,
    TestFind,
    TestListDue,
    TestListHeld,
    TestListLive,
    TestListOverdue,
    TestListRunning,
)
from rota.testing.contract.store_leadership import TestSlots, TestTerms
from rota.testing.contract.store_logs import TestLogs
from rota.testing.contract.store_nodes import TestNodes
from rota.testing.contract.store_pages import TestListPage, TestPaging
from rota.testing.contract.store_races import TestTwoNodes
from rota.testing.contract.store_reports import TestRollUp, TestRollups, TestTaskFacts
from rota.testing.contract.store_runs import TestFireRuns, TestListComingSchedules
from rota.testing.contract.store_schedules import TestFire, TestListDueSchedules
from rota.testing.contract.store_secrets import TestSecrets
from rota.testing.contract.store_tokens import TestPurgeTokens, TestRevoke, TestTokens
from rota.testing.contract.store_workers import TestWorkers

__all__ = [
    "StoreBackend",
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
