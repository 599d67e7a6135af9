"""One connection to Redis that many callers share.

Commands go out in the order they come, those of one turn of the loop in one piece, and the server answers in that
order; so a call costs one write and one wake at most, where taking a connection from a pool and giving it back costs
three times the CPU. A caller that stops waiting leaves its place in the row: the answer is read and thrown away. When
the connection breaks, everybody in the row gets the error.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from rota.infrastructure.pool_meter import PoolMeter


class _Call:
    """Somebody who waits for this many answers."""

    __slots__ = ("answers", "future", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.answers: list[Any] = []
        self.future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def is_complete_with(self, answer: Any) -> bool:
        """Note an answer; whether it was the last one."""
        self.answers.append(answer)
        if len(self.answers) < self.wanted:
            return False
        if not self.future.done():
            self.future.set_result(self.answers)
        return True

    def fail(self, problem: str) -> None:
        if not self.future.done():
            self.future.set_exception(RedisConnectionError(problem))
            self.future.exception()  # seen, even if the caller is just being cancelled


class Wire:
    """Open from `open_wire` until something breaks or `close`; then it stays closed."""

    def __init__(self, connection: AbstractConnection, meter: PoolMeter) -> None:
        self._connection = connection
        self._meter = meter
        self._is_ending = self._is_retired = False
        self._row: deque[_Call] = deque()
        self._outgoing: list[bytes] = []  # what was asked in this turn of the loop
        self._begun = asyncio.Event()
        self._reader = asyncio.create_task(self._read())
        self.is_open = True

    @property
    def is_over(self) -> bool:
        """Whether nothing is left of it."""
        return self._reader.done()

    async def begin(self) -> None:
        """Wait until it reads: a task that is cancelled before it began would not disconnect."""
        await self._begun.wait()

    async def ask(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Send commands in one piece; their answers in order, errors of the server among them."""
        if not self.is_open:
            raise RedisConnectionError("the connection is closed")
        packed = [part for command in commands for part in self._connection.pack_command(*command)]
        call = _Call(len(commands))
        if not self._outgoing:
            call.future.get_loop().call_soon(self._send)
        self._row.append(call)  # no waiting between this and the next line, or the order would differ
        self._outgoing += packed
        return await call.future

    def close(self) -> None:
        """Break the connection: whoever waits gets an error."""
        self._fail("the connection was closed")
        self._reader.cancel()  # which disconnects

    def retire(self) -> None:
        """Take no more commands, and close when the last answer has come."""
        if not self.is_open:
            return
        self._is_ending = True
        if self._row:
            self.is_open, self._is_retired = False, True
        else:
            self.close()

    async def end(self) -> None:
        """Close, and wait until nothing is left."""
        self._is_ending = True
        self.close()
        await asyncio.gather(self._reader, return_exceptions=True)

    def _send(self) -> None:
        """Not by redis-py's own method: that waits, and would connect anew under those in the row."""
        pieces, self._outgoing = self._outgoing, []
        writer = self._connection._writer
        if writer is None or writer.is_closing():
            self.close()
        elif pieces:
            writer.writelines(pieces)

    async def _read(self) -> None:
        self._begun.set()
        self._meter.opened()
        try:
            while self._row or not self._is_retired:
                answer = await self._read_one()
                if self._row[0].is_complete_with(answer):
                    self._row.popleft()
        except Exception as exc:  # whatever ends the reading must reach those who wait
            self._fail(str(exc))
        finally:
            self._meter.closed()
            if not self._is_ending:
                self._meter.lost()
            await self._connection.disconnect(nowait=True)

    async def _read_one(self) -> Any:
        try:
            return await self._connection.read_response()
        except ResponseError as exc:
            return exc

    def _fail(self, problem: str) -> None:
        self.is_open = False
        self._outgoing.clear()
        while self._row:
            self._row.popleft().fail(problem)


async def open_wire(connection: AbstractConnection, meter: PoolMeter) -> Wire:
    """Connect. When that is cancelled, nothing stays behind."""
    try:
        await connection.connect()  # type: ignore[no-untyped-call]
        wire = Wire(connection, meter)
        await wire.begin()
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return wire
