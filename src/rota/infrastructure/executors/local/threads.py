"""Plain functions that ask for a thread: they share this process's memory, and nothing can end them from outside.

A function that was told to stop and does not is given up on after the grace. Its thread is left to it, and another may
take its place; when the function returns after all, the thread ends. Too many that do not are a reason to start the
process anew.
"""

import asyncio
import threading
from dataclasses import dataclass
from queue import SimpleQueue

import structlog

from rota.domain.attempt import Outcome
from rota.infrastructure.executors.local.channel import Said, ThreadChannel, deliver
from rota.infrastructure.executors.local.mailbox import Mailbox
from rota.infrastructure.executors.local.waiting import Slots, join_all
from rota.sdk.context import Context, Facts
from rota.sdk.handler import Handler

JOIN_S = 2.0
MAX_ABANDONED = 32  # threads that do not end; each keeps its memory, perhaps for ever

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class ThreadJob:
    handler: Handler
    payload: str
    facts: Facts
    channel: ThreadChannel
    answer: asyncio.Future[Outcome]


class PoolThread:
    """Runs one job at a time, until told to end."""

    def __init__(self, outbox: "Mailbox[Said | Ended]", number: int) -> None:
        self._outbox = outbox
        self._inbox: SimpleQueue[ThreadJob | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"rota-task-{number}", daemon=True)
        self._thread.start()

    def give(self, job: ThreadJob | None) -> None:
        """A job, or None: end when the present one is done."""
        self._inbox.put(job)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, seconds: float) -> bool:
        self._thread.join(max(seconds, 0.0))
        return not self._thread.is_alive()

    def _serve(self) -> None:
        while (job := self._inbox.get()) is not None:
            outcome = job.handler.run(job.payload, Context(job.facts, job.channel))
            self._outbox.post((job, outcome))
            del job


Ended = tuple[ThreadJob, Outcome]


class Threads:
    """A pool of threads. Lives on the control loop."""

    def __init__(self, capacity: int) -> None:
        self.slots = Slots(capacity)
        self.outbox: Mailbox[Said | Ended] = Mailbox(asyncio.get_running_loop(), self._deliver)
        self._idle: list[PoolThread] = []
        self._busy: dict[ThreadJob, PoolThread] = {}
        self._abandoned: list[PoolThread] = []
        self._started = 0

    @property
    def is_worn(self) -> bool:
        """Whether so many threads do not end that only a new process gets rid of them."""
        return sum(thread.is_alive for thread in self._abandoned) >= MAX_ABANDONED

    def submit(self, job: ThreadJob) -> None:
        """Begin it; the caller holds a slot."""
        thread = self._idle.pop() if self._idle else self._start()
        self._busy[job] = thread
        thread.give(job)

    def give_up(self, job: ThreadJob) -> None:
        """Its thread is lost until it returns by itself; it takes no other job."""
        job.channel.close()
        thread = self._busy.pop(job)
        thread.give(None)
        self._abandoned = [left for left in self._abandoned if left.is_alive]
        self._abandoned.append(thread)

    async def close(self) -> None:
        threads = [*self._idle, *self._busy.values(), *self._abandoned]
        for thread in threads:
            thread.give(None)
        left = await join_all(threads, within_s=JOIN_S)
        if left:
            log.error("threads.left_behind", threads=left)
        self._idle, self._busy, self._abandoned = [], {}, []

    def _start(self) -> PoolThread:
        self._started += 1
        return PoolThread(self.outbox, self._started)

    def _deliver(self, item: Said | Ended) -> None:
        if len(item) != 2:
            deliver(item)
            return
        job, outcome = item
        thread = self._busy.pop(job, None)
        if thread is not None:
            self._idle.append(thread)
        job.channel.close()
        if not job.answer.done():
            job.answer.set_result(outcome)
