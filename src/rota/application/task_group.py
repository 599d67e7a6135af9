"""Several tasks at once, of which one that fails ends the others.

`asyncio.TaskGroup` does that. But before Python 3.13, when one fails while the group waits for the last of them, who
began the group is left marked as about to be cancelled (`Task.cancelling`), for ever: its next failure looks as if it
had been told to end. So they are waited for before the group does.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

Begin = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


def count_cancels() -> int:
    """How often the present task was told to end and has not taken note of it; what it began with may be of old."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


@asynccontextmanager
async def task_group() -> AsyncIterator[Begin]:
    """What begins a task of the group; it is left when all have ended. Raises as a `TaskGroup` does."""
    async with asyncio.TaskGroup() as group:
        running: set[asyncio.Task[None]] = set()

        def begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            task = group.create_task(work)
            running.add(task)
            task.add_done_callback(running.discard)
            return task

        yield begin
        while running:
            await asyncio.wait(running)
