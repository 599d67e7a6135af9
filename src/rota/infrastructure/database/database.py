"""One database, and the promise that a transaction either happened or is reported unknown.

Every function given to `transact` must be safe to run again after an unknown outcome: its writes are conditional on
what they found (a version, a unique key), so a second run after a COMMIT whose reply was lost finds its own work and
changes nothing. That is why the answer to a lost COMMIT, a deadlock and a broken connection is the same: run it again,
a few times, then say *unavailable*.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from rota.application.ports.system import Clock, Random
from rota.domain.errors import RotaError, UnavailableError
from rota.infrastructure.database.bulk import Bulk
from rota.infrastructure.database.runners import Runner
from rota.infrastructure.database.trouble import Trouble, diagnose

T = TypeVar("T")

TRIES = 5
FIRST_PAUSE = timedelta(milliseconds=5)


class DuplicateKeyError(Exception):
    """A unique key stood in the way; the transaction was rolled back. Stays inside the adapters."""


class DatabaseDefectError(RotaError):
    """The database refused a statement of ours: a defect, or a schema that does not fit this release."""

    code = "database_defect"


class Database:
    """Runs transactions with retries; translates every driver error at this border."""

    def __init__(
        self, runner: Runner, bulk: Bulk, *, clock: Clock, random: Random, unavailable: type[UnavailableError]
    ) -> None:
        self._runner = runner
        self.bulk = bulk
        self._clock = clock
        self._random = random
        self._unavailable = unavailable

    async def transact(self, work: Callable[[Connection], T], *, tries: int = TRIES) -> T:
        """Run a write transaction, again when it met a deadlock or lost its connection."""
        return await self._run(work, writes=True, tries=tries)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a read-only transaction."""
        return await self._run(work, writes=False, tries=TRIES)

    def now_us(self, connection: Connection) -> int:
        """The store's clock."""
        return self.bulk.now_us(connection)

    async def close(self) -> None:
        await self._runner.close()

    async def _run(self, work: Callable[[Connection], T], *, writes: bool, tries: int) -> T:
        for number in range(1, tries + 1):
            try:
                return await self._runner.run(work, writes=writes)
            except (SQLAlchemyError, OSError, TimeoutError) as exc:
                await self._recover(exc, is_last=number == tries)
            await self._clock.sleep(FIRST_PAUSE * 2**number * self._random.chance())
        raise AssertionError("unreachable: the last try returns or raises")

    async def _recover(self, error: Exception, *, is_last: bool) -> None:
        trouble = diagnose(error)
        if trouble is Trouble.DUPLICATE:
            raise DuplicateKeyError from error
        if trouble is Trouble.OTHER:
            raise DatabaseDefectError(f"{error} — try: rota db upgrade") from error
        if trouble is Trouble.READ_ONLY:
            await self._runner.drop_connections()
        if is_last or isinstance(error, TimeoutError):
            raise self._unavailable(f"the database gave no answer ({type(error).__name__})") from error
