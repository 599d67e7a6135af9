"""One attempt: from what the config and the payload say to an outcome."""

import json
from collections.abc import Mapping

from rota.application.ports.executor import Job, Reports
from rota.application.ports.system import Clock
from rota.config.registry import Surroundings
from rota.domain.attempt import Failed, Outcome, Succeeded, TaskError, TaskResult, TimedOut
from rota.domain.task_config import TaskConfig

from .config import MissingParameterError, Statement, read_file, read_wish
from .database import Database, Order, OutOfTimeError, SqlError
from .postgres import PostgresDatabase
from .sqlite import SqliteDatabase


def make_executor(around: Surroundings) -> "SqlExecutor":
    """The entry point of `rota.executors`: called once for each worker, before anything runs."""
    file = read_file()
    databases = {name: _make_database(url, around.clock) for name, url in file.databases.items()}
    return SqlExecutor(around.clock, databases, statements=file.statements)


def _make_database(url: str, clock: Clock) -> Database:
    return SqliteDatabase(url, clock) if url.startswith("sqlite:") else PostgresDatabase(url)


class SqlExecutor:
    """The executor of type `sql`."""

    def __init__(self, clock: Clock, databases: Mapping[str, Database], *, statements: Mapping[str, Statement]) -> None:
        self._clock = clock
        self._databases = databases
        self._statements = statements

    async def start(self) -> None:
        for database in self._databases.values():
            await database.open()

    def supports(self, config: TaskConfig) -> bool:
        """A worker whose file has no such statement hands the task back, for another one to run it."""
        return read_wish(json.loads(config.executor_config)).statement in self._statements

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        wish = read_wish(json.loads(job.config.executor_config))
        statement = self._statements[wish.statement]
        try:
            values = statement.pick(job.task)
        except MissingParameterError as exc:
            return Failed(TaskError("missing_parameter", str(exc), retryable=False))
        left = job.deadline - self._clock.monotonic()
        try:
            data = await self._databases[statement.database].run(Order(statement.sql, values, wish.max_rows, left))
        except SqlError as exc:
            return Failed(TaskError(exc.code, str(exc), retryable=exc.is_retryable))
        except OutOfTimeError:
            return TimedOut()
        reports.log(f"ran {wish.statement} in {statement.database}")
        return Succeeded(TaskResult(data=data))

    async def close(self) -> None:
        for database in self._databases.values():
            await database.close()
