"""The executors of a worker, as one."""

import pytest

from rota.application.work.registry import ExecutorRegistry
from tests.support.executors import ScriptedExecutor


class Unclosable(ScriptedExecutor):
    async def close(self) -> None:
        raise OSError("it does not close")


async def test_one_that_cannot_be_closed_keeps_no_other_from_being_closed() -> None:
    first, last = ScriptedExecutor(), ScriptedExecutor()
    executors = ExecutorRegistry({"first": first, "second": Unclosable(), "last": last})
    await executors.start()

    with pytest.raises(OSError, match="it does not close"):
        await executors.close()

    assert not first.is_started
    assert not last.is_started
