"""The contract of the coordinator port: every adapter passes it, ours and those of other packages.

To test an adapter, write a fixture named `backend` that yields a `CoordinatorBackend` with an empty memory, and import
the classes into a test module:

    from rota.testing.contract.coordinator import *

pytest rewrites the assertions in here, for better messages, after
`pytest.register_assert_rewrite("rota.testing.contract")` in `conftest.py`. Needs pytest-asyncio.
"""

from rota.testing.contract.coordinator_backend import CoordinatorBackend
from rota.testing.contract.coordinator_delayed import TestDelayed
from rota.testing.contract.coordinator_deliveries import TestDeliveries
from rota.testing.contract.coordinator_election import TestElection
from rota.testing.contract.coordinator_locks import TestLocks
from rota.testing.contract.coordinator_pool import TestWorkerPool
from rota.testing.contract.coordinator_queue import TestGeneration, TestTaskQueue
from rota.testing.contract.coordinator_signals import TestSignals

__all__ = [
    "CoordinatorBackend",
    "TestDelayed",
    "TestDeliveries",
    "TestElection",
    "TestGeneration",
    "TestLocks",
    "TestSignals",
    "TestTaskQueue",
    "TestWorkerPool",
]
