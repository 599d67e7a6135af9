"""SQLite: its library blocks, so statements run in threads, and look at a flag while they do."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from rota.application.ports.system import Clock

from .database import MOST_AT_ONCE, Order, OutOfTimeError, SqlError, write_count, write_rows

LOOK_EVERY = 10_000  # instructions of its virtual machine, well below a millisecond
WAIT_FOR_LOCK = 1.0  # seconds; it cannot be stopped meanwhile, and the task is tried again
RETRYABLE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL})


class SqliteDatabase:
    """A file, which must be there."""

    def __init__(self, url: str, clock: Clock) -> None:
        path = Path(url.removeprefix("sqlite:///")).absolute()
        self._uri = f"file:{quote(str(path))}?mode=rw"  # never makes a new one where a name is mistyped
        self._clock = clock
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, "rota-sql")

    async def open(self) -> None:
        """Each statement has a connection of its own: opening one takes less than a millisecond."""

    async def run(self, order: Order) -> str:
        stop = threading.Event()
        until = self._clock.monotonic() + order.within
        running = self._threads.submit(self._run, order, stop=lambda: stop.is_set() or self._clock.monotonic() > until)
        ended = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            stop.set()
            running.cancel()  # what waits for a thread does not begin any more
            await asyncio.wait([ended])
            raise

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    def _run(self, order: Order, *, stop: Callable[[], bool]) -> str:
        try:
            with closing(sqlite3.connect(self._uri, uri=True, timeout=WAIT_FOR_LOCK)) as connection, connection:
                connection.set_progress_handler(stop, LOOK_EVERY)
                return _tell(connection, order)
        except (OverflowError, sqlite3.Error) as exc:
            raise _explain(exc) from exc


def _tell(connection: sqlite3.Connection, order: Order) -> str:
    values = {str(place): value for place, value in enumerate(order.values, start=1)}  # $1 is one called 1
    cursor = connection.execute(order.sql, values)
    if cursor.description is None:
        return write_count(cursor.rowcount)
    columns = [column[0] for column in cursor.description]
    return write_rows(cursor.fetchmany(order.max_rows + 1), columns, most=order.max_rows)


def _explain(error: Exception) -> Exception:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)  # the module's own errors have none
    if code == sqlite3.SQLITE_INTERRUPT:
        return OutOfTimeError(str(error))
    name = getattr(error, "sqlite_errorname", "SQLITE_ERROR").lower()
    return SqlError(name, str(error), is_retryable=(code & 0xFF) in RETRYABLE)  # above are the finer kinds
