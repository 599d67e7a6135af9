"""The schema's versions. A release runs on its own schema and on the next one: first expand, a release later contract.

Two processes that migrate at once take turns through a lock of the database; the second finds nothing left to do.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, MetaData, String, Table, inspect

from rota.infrastructure.database.connect import parse_url, server_engine, sqlite_engine

T = TypeVar("T")

VERSION_TABLE = "rota_schema_version"
# Alembic would make it too, but names its primary key, at which MySQL mutters into the log.
_version_table = Table(VERSION_TABLE, MetaData(), Column("version_num", String(32), primary_key=True))
LOCK_NUMBER = 7_682_001  # ours among the advisory locks of a PostgreSQL database
LOCK_WAIT_S = 60


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Where a database's schema stands."""

    current: str | None
    newest: str

    @property
    def is_current(self) -> bool:
        return self.current == self.newest


async def upgrade(url: str) -> SchemaStatus:
    """Bring the schema to the newest version; does nothing when it is there."""
    await _run(url, _upgrade_locked)
    return await status(url)


async def status(url: str) -> SchemaStatus:
    """Compare the database with this release, changing nothing."""
    newest = ScriptDirectory.from_config(_config()).get_current_head()
    return SchemaStatus(current=await _run(url, _current_version), newest=str(newest))


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "rota.infrastructure.database:migrations")
    return config


def _current_version(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def _upgrade_locked(connection: Connection) -> None:
    lock, unlock = _locks(connection.dialect.name)
    connection.exec_driver_sql(lock)
    try:
        if not inspect(connection).has_table(VERSION_TABLE):
            _version_table.create(connection)
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()
    finally:
        if unlock:
            connection.exec_driver_sql(unlock)


def _locks(dialect: str) -> tuple[str, str]:
    match dialect:
        case "postgresql":
            return f"SELECT pg_advisory_lock({LOCK_NUMBER})", f"SELECT pg_advisory_unlock({LOCK_NUMBER})"
        case "sqlite":
            return "BEGIN IMMEDIATE", ""
        case _:
            return f"SELECT GET_LOCK('rota_schema', {LOCK_WAIT_S})", "SELECT RELEASE_LOCK('rota_schema')"


async def _run(url: str, work: Callable[[Connection], T]) -> T:
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return await asyncio.to_thread(_run_on_file, url, work)
    engine = server_engine(parsed)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()


def _run_on_file(url: str, work: Callable[[Connection], T]) -> T:
    engine = sqlite_engine(parse_url(url))
    try:
        with engine.connect() as connection:
            return work(connection)
    finally:
        engine.dispose()
