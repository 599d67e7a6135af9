"""Threads that wait for work with a connection in hand.

For SQLite, where a query takes less time than handing it to another thread: an executor of the standard library and
a connection from a pool for each call took several times as long as the query (ADR-0014).

A thread keeps its connection until it breaks, or until all are told to drop theirs. Work that was cancelled before a
thread came to it is not done; once begun it goes on to its end, and nobody hears of it.

What waits when a thread is free again may share a transaction, and so its COMMIT. Nobody is answered before that. If
one of them fails, all is rolled back and each is done by itself: the others do not pay for it.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from sqlalchemy import Connection, Engine

T = TypeVar("T")
V = TypeVar("V")
Call = Callable[[Connection], T]
Transact = Callable[[Connection, Sequence[Call[object]]], list[object]]  # makes the calls in one transaction


class ConnectedThreads:
    """Up to a number of threads, started as they are needed. To be called from one event loop."""

    def __init__(self, engine: Engine, name: str, *, transact: Transact, most: int, together: int = 1) -> None:
        self._engine = engine
        self._name = name
        self._transact = transact
        self._most = most
        self._together = together  # calls that one transaction may have
        self._jobs: SimpleQueue[_Job[object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0  # calls, whether or not somebody still waits for them
        self._era = 0  # connections of an earlier one are not used again

    async def run(self, call: Call[T]) -> T:
        """Have a thread make this call with its connection."""
        job = _Job(call, over=self._note_end)
        self._unfinished += 1
        if len(self._threads) < min(self._unfinished, self._most):
            # A daemon: a program that ends without closing must not hang, and what is not committed is not there.
            self._threads.append(threading.Thread(target=self._work, name=self._name, daemon=True))
            self._threads[-1].start()
        self._jobs.put(job)  # type: ignore[arg-type]  # whoever takes it does not look at what it is about
        return await job.answer

    def _note_end(self) -> None:
        self._unfinished -= 1

    def drop_connections(self) -> None:
        """Have each thread connect anew before its next call."""
        self._era += 1

    def close(self) -> None:
        """Let the threads finish what they were given, and end them and their connections."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _work(self) -> None:
        hand = Hand(self._engine)
        while (job := self._jobs.get()) is not None:
            hand.era = self._era
            self._do([one for one in (job, *self._take_waiting()) if one.is_wanted()], hand)
            del job  # an answer may hold much
        hand.let_go()

    def _take_waiting(self) -> "Iterator[_Job[object]]":
        """More that may share the transaction of the first."""
        with suppress(Empty):
            for _ in range(self._together - 1):
                job = self._jobs.get_nowait()
                if job is None:
                    self._jobs.put(None)  # the end is for later
                    return
                yield job

    def _do(self, jobs: "Sequence[_Job[object]]", hand: "Hand") -> None:
        if not jobs:
            return
        try:
            answers = self._transact(hand.hold(), [job.call for job in jobs])
        except BaseException as exc:
            if len(jobs) == 1:
                jobs[0].fail(exc)
            else:
                for job in jobs:
                    self._do([job], hand)
        else:
            for job, answer in zip(jobs, answers, strict=True):
                job.succeed(answer)


class Hand:
    """The connection that a thread holds."""

    def __init__(self, engine: Engine, *, prepare: Callable[[Connection], object] | None = None) -> None:
        self.era = 0
        self._engine = engine
        self._prepare = prepare
        self._connection: Connection | None = None
        self._connected_in = 0

    def hold(self) -> Connection:
        if self._connection is None or self._connection.invalidated or self._connected_in != self.era:
            self.let_go()
            self._connection, self._connected_in = self._engine.connect(), self.era
            if self._prepare is not None:
                self._prepare(self._connection)
        return self._connection

    def let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Job(Generic[T]):
    """One call, and the way its answer takes back to the event loop."""

    def __init__(self, call: Call[T], *, over: Callable[[], None]) -> None:
        self.call = call
        self._over = over
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[T] = self._loop.create_future()

    def is_wanted(self) -> bool:
        """In the thread: whether somebody still waits for it. If not, it is over."""
        if self.answer.cancelled():
            self.fail(asyncio.CancelledError())
            return False
        return True

    def succeed(self, result: T) -> None:
        """In the thread: send the answer."""
        self._tell(self._succeed, result)

    def fail(self, error: BaseException) -> None:
        """In the thread: say why there is none."""
        self._tell(self._fail, error)

    def _tell(self, how: Callable[[V], None], what: V) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            self._loop.call_soon_threadsafe(how, what)

    def _succeed(self, result: T) -> None:
        self._over()
        if not self.answer.done():
            self.answer.set_result(result)

    def _fail(self, error: BaseException) -> None:
        self._over()
        if not self.answer.done():
            self.answer.set_exception(error)
