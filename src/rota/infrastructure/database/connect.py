"""From a URL to a `Database`: drivers, pools, session settings."""

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from rota.application.ports.system import Clock, Random
from rota.domain.errors import ConfigError, StoreUnavailableError, UnavailableError
from rota.infrastructure.database.bulk import Bulk
from rota.infrastructure.database.bulk_mysql import MysqlBulk
from rota.infrastructure.database.bulk_postgres import PostgresBulk
from rota.infrastructure.database.bulk_sqlite import SqliteBulk
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.runners import CALL_DEADLINE_S, Runner, ServerRunner, SqliteRunner

POOL_SIZE = 10
POOL_WAIT_S = 2.0
CONNECT_S = 2
LOCK_WAIT_S = 3
CONNECTION_LIFE_S = 1800
BACKENDS = frozenset({"sqlite", "mysql", "mariadb", "postgresql"})
OLDEST_SQLITE = (3, 35, 0)  # UPSERT, RETURNING


def open_database(
    url: str, *, clock: Clock, random: Random, unavailable: type[UnavailableError] = StoreUnavailableError
) -> Database:
    """A database by its URL: `sqlite:///path`, `mysql://…`, `mariadb://…` or `postgresql://…`. Connects lazily."""
    return Database(open_runner(url), bulk_for(url, clock), clock=clock, random=random, unavailable=unavailable)


def open_runner(url: str, *, deadline_s: float = CALL_DEADLINE_S) -> Runner:
    """What runs transactions at this URL, each within a deadline."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return SqliteRunner(sqlite_engine(parsed), deadline_s=deadline_s)
    return ServerRunner(server_engine(parsed), deadline_s=deadline_s)


def bulk_for(url: str, clock: Clock) -> Bulk:
    """The bulk statements that the database at this URL understands."""
    match parse_url(url).get_backend_name():
        case "sqlite":
            return SqliteBulk(clock.now)
        case "postgresql":
            return PostgresBulk()
        case _:
            return MysqlBulk()


def server_engine(url: URL) -> AsyncEngine:
    """A MySQL, MariaDB or PostgreSQL server with a bounded pool; every wait has an end."""
    return _postgres_engine(url) if url.get_backend_name() == "postgresql" else _mysql_engine(url)


def sqlite_engine(url: URL) -> Engine:
    """A SQLite file in WAL mode; a commit is on disk when it returns."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigError(f"SQLite {sqlite3.sqlite_version} is too old; use a Python built with SQLite 3.35 or newer")
    if not url.database:
        raise ConfigError("store.url: sqlite:/// needs a file; use memory:// to keep nothing")
    Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url.set(drivername="sqlite+pysqlite"), pool_reset_on_return="rollback")
    event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={LOCK_WAIT_S * 1000}", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {pragma}")


def _mysql_engine(url: URL) -> AsyncEngine:
    session = f"SET time_zone='+00:00', innodb_lock_wait_timeout={LOCK_WAIT_S}"
    return create_async_engine(
        url.set(drivername="mysql+asyncmy"),
        isolation_level="READ COMMITTED",
        connect_args={"connect_timeout": CONNECT_S, "init_command": session},
        **_pool(),
    )


def _postgres_engine(url: URL) -> AsyncEngine:
    settings = {"lock_timeout": f"{LOCK_WAIT_S}s", "timezone": "UTC", "application_name": "rota"}
    return create_async_engine(
        url.set(drivername="postgresql+asyncpg"),
        connect_args={"timeout": CONNECT_S, "server_settings": settings},
        **_pool(),
    )


def _pool() -> dict[str, Any]:
    return {
        "pool_size": POOL_SIZE,
        "max_overflow": 0,
        "pool_timeout": POOL_WAIT_S,
        "pool_recycle": CONNECTION_LIFE_S,
        "pool_pre_ping": True,
        "pool_reset_on_return": None,  # the runner has committed, rolled back or closed it already
    }


def parse_url(url: str) -> URL:
    """A database URL, or `ConfigError` with the fix."""
    try:
        parsed = make_url(url)
    except ArgumentError as exc:
        raise ConfigError(f"store.url: {url!r} is not a URL such as sqlite:///.rota/rota.db") from exc
    if parsed.get_backend_name() not in BACKENDS:
        raise ConfigError(f"store.url: {parsed.drivername}:// is not one of {', '.join(sorted(BACKENDS))}")
    return parsed
