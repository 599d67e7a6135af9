"""What a backend written elsewhere needs to prove itself: the contract suites, and wrappers that inject faults.

How another package runs them. It needs pytest and pytest-asyncio, no option and no marker of ours. Its `conftest.py`:

    import pytest
    import pytest_asyncio

    pytest.register_assert_rewrite("rota.testing.contract")  # before the import: failures show their values

    from my_package.testing import MyBackend  # a StoreBackend: connect, wait, tick

    @pytest_asyncio.fixture
    async def backend():
        async with MyBackend() as empty:  # no data of an earlier test
            yield empty

And a test module, which takes the classes over as its own:

    from rota.testing.contract.store import *

For a coordinator it is `rota.testing.contract.coordinator`, and the fixture yields a `CoordinatorBackend`. What the two
kinds of backend have to offer is written in `contract/store_backend.py` and `contract/coordinator_backend.py`. One test
leases all 1,024 node slots, a commit each; where that takes too long, leave it out with `--deselect`, or override it in
a subclass with a marker of your own, as our `tests/contract/test_store.py` does.

Wrap an adapter that passes in `faulty_store` or `faulty_coordinator` to see how callers bear its failures.
"""

from rota.testing.kit import advance, run

__all__ = ["advance", "run"]
