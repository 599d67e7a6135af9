"""The mark that a `TaskGroup` may leave on who began it before Python 3.13 (`rota.application.task_group`)."""

import asyncio
from contextlib import suppress


async def mark_as_cancelled() -> None:
    """The present task looks from now on as if it had been told to end."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    assert task.cancelling()
