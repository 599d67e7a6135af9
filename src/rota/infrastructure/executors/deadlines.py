"""The deadlines of attempts that run, all watched by one timer of the loop.

`asyncio.timeout` sets a timer for each attempt, and nearly all of them end long before it. Here the nearest deadline
alone has one; what has ended stays in the heap until its time has come, or until too much there has ended.
"""

import asyncio
import heapq
from itertools import count
from types import TracebackType

GRAIN = 0.001  # seconds; a deadline nearer than this has come: no wait is exact
SLACK = 1000  # entries of ended attempts that the heap may hold beside twice the running ones


class Deadlines:
    """Those of one executor, on one loop."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Watch]] = []
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self.running = 0

    def add(self, watch: "Watch", left: float) -> None:
        """Stop it after so many seconds, unless it has ended."""
        loop = asyncio.get_running_loop()
        until = loop.time() + left
        heapq.heappush(self._heap, (until, next(self._order), watch))
        self.running += 1
        if self._timer is None or until < self._timer.when():
            self._set_timer(loop)
        if len(self._heap) > 2 * self.running + SLACK:
            self._heap = [entry for entry in self._heap if entry[2].task is not None]
            heapq.heapify(self._heap)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        if self._heap:
            self._timer = loop.call_at(self._heap[0][0], self._stop_late, loop)

    def _stop_late(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time() + GRAIN
        while self._heap and (self._heap[0][2].task is None or self._heap[0][0] <= now):
            heapq.heappop(self._heap)[2].stop()
        self._set_timer(loop)


class Watch:
    """Stops the task that entered it when the seconds that were left are over, with `TimeoutError`.

    As `asyncio.timeout` does, it tells its own stop from that by others, which stays a cancellation.
    """

    __slots__ = ("_cancelling", "_deadlines", "_is_late", "_left", "task")

    def __init__(self, deadlines: Deadlines, left: float) -> None:
        self._deadlines = deadlines
        self._left = left
        self._is_late = False
        self._cancelling = 0
        self.task: asyncio.Task[object] | None = None  # None: it has ended

    def stop(self) -> None:
        """Its time has come."""
        if self.task is not None:
            self._is_late = True
            self.task.cancel()

    def __enter__(self) -> None:
        self.task = task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline is watched for tasks only")
        self._cancelling = task.cancelling()
        self._deadlines.add(self, self._left)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self.task = self.task, None
        self._deadlines.running -= 1
        if not self._is_late or task is None:
            return
        is_ours = task.uncancel() <= self._cancelling
        if is_ours and kind is asyncio.CancelledError:
            raise TimeoutError from error
