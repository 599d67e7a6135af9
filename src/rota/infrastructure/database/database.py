"""One database, and the promise that a transaction either happened or is reported unknown.

Every function given to `transact` must be safe to run again after an unknown outcome: its writes are conditional on
what they found (a version, a unique key), so a second run after a COMMIT whose reply was lost finds its own work and
changes nothing. That is why the answer to a lost COMMIT, a deadlock and a broken connection is the same: run it again,
a few times within one deadline, then say *unavailable*.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.system import Clock, Random
from rota.domain.errors import RotaError, StoreUnavailableError, UnavailableError
from rota.infrastructure.database.bulk import Bulk
from rota.infrastructure.database.runners import Runner, Work
from rota.infrastructure.database.trouble import Trouble, diagnose

T = TypeVar("T")

TRIES = 5
FIRST_PAUSE = timedelta(milliseconds=5)
SCAN_DEADLINE_S = 30.0  # for reads that look at everything that is live

log = structlog.get_logger(__name__)


class RunAgainError(Exception):
    """Raised by work that found it must be done the other way. Rolled back; stays inside the adapters."""


class DuplicateKeyError(RunAgainError):
    """A unique key stood in the way."""


class DatabaseDefectError(RotaError):
    """The database refused a statement of ours: a defect, or a schema that does not fit this release."""

    code = "database_defect"


class Errors(NamedTuple):
    """What the callers of a database are told of trouble."""

    unavailable: type[UnavailableError]
    defect: type[RotaError]


STORE_ERRORS = Errors(StoreUnavailableError, DatabaseDefectError)


class Database:
    """Runs transactions with retries under one deadline; translates every driver error at this border."""

    def __init__(
        self, runner: Runner, bulk: Bulk, *, clock: Clock, random: Random, errors: Errors = STORE_ERRORS
    ) -> None:
        self._runner = runner
        self.bulk = bulk
        self.clock = clock
        self._random = random
        self._errors = errors

    async def transact(self, work: Work[T], *, again: Work[T] | None = None, is_repeatable: bool = True) -> T:
        """Run a write transaction, again when it met a deadlock or lost its connection.

        `again`, where given, takes the place of `work` from the second run on, also after `RunAgainError`. Work that
        is not repeatable is run again only when it was certainly rolled back.
        """
        return await self._within_deadline(self._write(work, again=again, is_repeatable=is_repeatable))

    async def read(self, work: Work[T], *, deadline_s: float | None = None, is_brief: bool = False) -> T:
        """Run a read-only transaction. What is brief reads a few rows by their keys."""
        return await self._within_deadline(self._read(work, is_brief=is_brief), deadline_s)

    def now_us(self, connection: Connection) -> int:
        """The store's clock."""
        return self.bulk.now_us(connection)

    def measure(self, collector: MetricsCollector, *, server: str) -> None:
        """Tell of the connections, from now on."""
        self._runner.measure(collector, server=server)

    async def close(self) -> None:
        await self._runner.close()

    async def _within_deadline(self, call: Coroutine[Any, Any, T], deadline_s: float | None = None) -> T:
        try:
            async with asyncio.timeout(deadline_s or self._runner.deadline_s):
                return await call
        except TimeoutError as exc:
            raise self._errors.unavailable("the database gave no answer in time") from exc

    async def _write(self, work: Work[T], *, again: Work[T] | None, is_repeatable: bool) -> T:
        for number in range(1, TRIES + 1):
            try:
                return await self._runner.run(work, writes=True)
            except RunAgainError:
                if again is None:
                    raise
            except (SQLAlchemyError, OSError) as exc:
                trouble = await self._recover(exc, is_last=number == TRIES)
                if trouble is Trouble.DUPLICATE and again is None:
                    raise DuplicateKeyError from exc
                if trouble is Trouble.LOST and not is_repeatable:
                    raise self._no_answer(exc) from exc
                await self._pause(number)
            work = again or work
        raise self._errors.unavailable("the rows kept changing while they were written")

    async def _read(self, work: Work[T], *, is_brief: bool) -> T:
        for number in range(1, TRIES):
            try:
                return await self._runner.run(work, writes=False, is_brief=is_brief)
            except (SQLAlchemyError, OSError) as exc:
                await self._recover(exc, is_last=number == TRIES - 1)
            await self._pause(number)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _pause(self, number: int) -> None:
        await self.clock.sleep(FIRST_PAUSE * 2**number * self._random.chance())

    async def _recover(self, error: Exception, *, is_last: bool) -> Trouble:
        """Say what the trouble was if running again may help; raise what the caller should see if not."""
        trouble = diagnose(error)
        if trouble is Trouble.SCHEMA:
            raise self._refuse(
                f"the schema is missing or older than this release; upgrade it first ({error})"
            ) from error
        if trouble is Trouble.OTHER:
            raise self._refuse(str(error)) from error
        if trouble is Trouble.READ_ONLY:
            await self._runner.drop_connections()
        if is_last:
            raise self._no_answer(error) from error
        return trouble

    def _refuse(self, problem: str) -> RotaError:
        log.error("database.refused", error=problem)
        return self._errors.defect(problem)

    def _no_answer(self, error: Exception) -> UnavailableError:
        return self._errors.unavailable(f"the database gave no answer ({type(error).__name__})")
