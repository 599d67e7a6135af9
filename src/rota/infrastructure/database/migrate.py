"""The schema's versions. A release runs on its own schema and on the next one: first expand, a release later contract.

So a schema that a release does not know is a later one, and it runs on that unless a migration has written down that
it must not: what a later release made is not its to change.

Two processes that migrate at once take turns through a lock of the database; the second finds nothing left to do. One
that cannot get the lock in time changes nothing. The lock belongs to the session: a process that dies gives it back.

Alembic is imported by who migrates: it costs as much as the rest of a process that starts, and most find nothing to do.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib import resources
from typing import TypeVar

from sqlalchemy import Column, Connection, MetaData, String, Table, column, inspect, select, table
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from rota.domain.errors import RotaError, StoreUnavailableError
from rota.infrastructure.database.connect import parse_url, server_engine, sqlite_engine
from rota.infrastructure.database.database import DatabaseDefectError
from rota.infrastructure.database.trouble import Trouble, diagnose

T = TypeVar("T")

VERSION_TABLE = "rota_schema_version"
FLOOR_TABLE = "rota_schema_floor"  # made by the first migration that takes away what an older release uses
# Alembic would make it too, but names its primary key, at which MySQL mutters into the log.
_version_table = Table(VERSION_TABLE, MetaData(), Column("version_num", String(32), primary_key=True))
LOCK_NUMBER = 7_682_001  # ours among the advisory locks of a PostgreSQL database
LOCK_NAME = "CONCAT('rota_schema_', MD5(DATABASE()))"  # MySQL's are of the whole server: each database has its own
LOCK_WAIT = timedelta(seconds=60)  # longer than a migration of another process should take


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Where a database's schema stands."""

    current: str | None
    newest: str  # that this release knows
    is_later: bool = False  # than this release knows
    floor: str | None = None  # the least that a release must know to run on a later one

    @property
    def is_current(self) -> bool:
        return self.current == self.newest

    @property
    def can_be_used(self) -> bool:
        """Whether this release runs on it as it is."""
        return self.is_current or (self.is_later and (self.floor is None or self.newest >= self.floor))


async def upgrade(url: str, *, lock_wait: timedelta = LOCK_WAIT) -> SchemaStatus:
    """Bring the schema to the newest version; does nothing when it is there, or later.

    May be repeated. Raises `StoreUnavailableError` when the database cannot be reached or another process migrates it
    for longer than `lock_wait`, `DatabaseDefectError` when the database refuses.
    """
    await _run(url, lambda connection: _upgrade_locked(connection, lock_wait))
    return await status(url)


async def status(url: str) -> SchemaStatus:
    """Compare the database with this release, changing nothing. Raises as `upgrade` does."""
    return await _run(url, _status)


def known_revisions() -> list[str]:
    """Those of this release, in their order: their files begin with them."""
    files = resources.files("rota.infrastructure.database.migrations.versions").iterdir()
    return sorted(file.name[:4] for file in files if file.name[:4].isdigit())


def _status(connection: Connection) -> SchemaStatus:
    known = known_revisions()
    current = _read_version(connection, VERSION_TABLE)
    is_later = current is not None and current not in known
    floor = _read_version(connection, FLOOR_TABLE) if is_later else None
    return SchemaStatus(current, newest=known[-1], is_later=is_later, floor=floor)


def _read_version(connection: Connection, name: str) -> str | None:
    if not inspect(connection).has_table(name):
        return None
    return connection.execute(select(column("version_num", String)).select_from(table(name))).scalar()


def _upgrade_locked(connection: Connection, lock_wait: timedelta) -> None:
    with _locked(connection, lock_wait):
        if not inspect(connection).has_table(VERSION_TABLE):
            _version_table.create(connection)
        now = _status(connection)
        if not now.is_current and not now.is_later:
            _migrate(connection)


def _migrate(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "rota.infrastructure.database:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.commit()


@contextmanager
def _locked(connection: Connection, wait: timedelta) -> Iterator[None]:
    if not _lock(connection, wait):
        raise StoreUnavailableError(
            f"another process has been migrating this database for {wait.total_seconds():g} s;"
            " wait until it has finished or end it, then migrate again"
        )
    try:
        yield
    except Exception:
        # PostgreSQL refuses every statement after one that failed, and the complaint would hide the cause.
        with suppress(SQLAlchemyError, OSError):
            connection.rollback()
            _unlock(connection)
        raise
    _unlock(connection)


def _lock(connection: Connection, wait: timedelta) -> bool:
    # The limit that the session sets to a statement is not for the wait, nor for a migration of a large table.
    milliseconds = f"{wait / timedelta(milliseconds=1):.0f}"
    match connection.dialect.name:
        case "postgresql":
            connection.exec_driver_sql("SET statement_timeout=0")
            connection.exec_driver_sql(f"SET lock_timeout={milliseconds}")
            is_ours = _try_lock(connection, f"SELECT pg_advisory_lock({LOCK_NUMBER})")
            if is_ours:  # tables keep the session's short wait: whoever waits for one stops all who come after
                connection.exec_driver_sql("RESET lock_timeout")
            return is_ours
        case "sqlite":
            connection.exec_driver_sql(f"PRAGMA busy_timeout={milliseconds}")
            return _try_lock(connection, "BEGIN IMMEDIATE")
        case _:
            connection.exec_driver_sql("SET time_zone='+00:00' /*M!100100 , max_statement_time=0 */")
            answer = connection.exec_driver_sql(f"SELECT GET_LOCK({LOCK_NAME}, {wait.total_seconds():g})").scalar_one()
            return bool(answer == 1)  # 0 is too late, NULL an error


def _try_lock(connection: Connection, statement: str) -> bool:
    try:
        connection.exec_driver_sql(statement)
    except DBAPIError as exc:
        if diagnose(exc) is Trouble.CONTENTION:
            return False
        raise
    return True


def _unlock(connection: Connection) -> None:
    match connection.dialect.name:
        case "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_unlock({LOCK_NUMBER})")
        case "sqlite":
            pass  # the lock was the transaction
        case _:
            connection.exec_driver_sql(f"SELECT RELEASE_LOCK({LOCK_NAME})")


async def _run(url: str, work: Callable[[Connection], T]) -> T:
    parsed = parse_url(url)
    try:
        if parsed.get_backend_name() == "sqlite":
            return await asyncio.to_thread(_run_on_file, parsed, work)
        return await _run_on_server(parsed, work)
    except (SQLAlchemyError, OSError) as exc:
        raise _translate(exc, parsed) from exc


def _translate(error: Exception, url: URL) -> RotaError:
    where = url.render_as_string(hide_password=True)
    cause = error.orig if isinstance(error, DBAPIError) else error
    if diagnose(error) is Trouble.OTHER:
        return DatabaseDefectError(f"{where} refused: {cause} — try: check its name, the user and the user's rights")
    return StoreUnavailableError(f"{where} gave no answer: {cause} — try again once it runs and can be reached")


async def _run_on_server(url: URL, work: Callable[[Connection], T]) -> T:
    engine = server_engine(url)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()


def _run_on_file(url: URL, work: Callable[[Connection], T]) -> T:
    engine = sqlite_engine(url)
    try:
        with engine.connect() as connection:
            return work(connection)
    finally:
        engine.dispose()
