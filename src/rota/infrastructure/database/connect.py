"""From a URL to a `Database`: drivers, pools, session settings."""

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from rota.application.ports.system import Clock, Random
from rota.domain.errors import ConfigError
from rota.infrastructure.database.bulk import Bulk
from rota.infrastructure.database.bulk_mysql import MysqlBulk
from rota.infrastructure.database.bulk_postgres import PostgresBulk
from rota.infrastructure.database.bulk_sqlite import SqliteBulk
from rota.infrastructure.database.database import STORE_ERRORS, Database, Errors
from rota.infrastructure.database.runners import CALL_DEADLINE_S, Runner, ServerRunner, SqliteRunner

POOL_SIZE = 10  # of writers, and again of readers
PING_AFTER_S = 5.0  # shorter than any server or firewall drops an idle connection
POOL_WAIT_S = 2.0
CONNECT_S = 2
LOCK_WAIT_S = 3
CONNECTION_LIFE_S = 1800
IDLE_S = 30  # a node that vanished must not keep its connections for longer …
IDLE_IN_TRANSACTION_S = 2  # … nor one that stands still its locks: less than others wait for one
STATEMENT_S = 30  # the server stops what nobody waits for any more
BACKENDS = frozenset({"sqlite", "mysql", "mariadb", "postgresql"})
WAL_TRIES = 5
OLDEST_SQLITE = (3, 35, 0)  # UPSERT, RETURNING


def open_database(
    url: str,
    *,
    clock: Clock,
    random: Random,
    errors: Errors = STORE_ERRORS,
    deadline_s: float = CALL_DEADLINE_S,
) -> Database:
    """A database by its URL: `sqlite:///path`, `mysql://…`, `mariadb://…` or `postgresql://…`. Connects lazily."""
    runner = open_runner(url, deadline_s=deadline_s)
    return Database(runner, bulk_for(url, clock), clock=clock, random=random, errors=errors)


def open_runner(url: str, *, deadline_s: float = CALL_DEADLINE_S) -> Runner:
    """What runs transactions at this URL, each within a deadline."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return SqliteRunner(sqlite_engine(parsed), deadline_s=deadline_s)
    writer = server_engine(parsed, idle_in_transaction_s=IDLE_IN_TRANSACTION_S)
    reader = server_engine(parsed, isolation_level="AUTOCOMMIT")
    return ServerRunner(writer, reader, deadline_s=deadline_s)


def bulk_for(url: str, clock: Clock) -> Bulk:
    """The bulk statements that the database at this URL understands."""
    match parse_url(url).get_backend_name():
        case "sqlite":
            return SqliteBulk(clock.now)
        case "postgresql":
            return PostgresBulk()
        case _:
            return MysqlBulk()


def server_engine(
    url: URL, *, isolation_level: str = "READ COMMITTED", idle_in_transaction_s: int = IDLE_S
) -> AsyncEngine:
    """A MySQL, MariaDB or PostgreSQL server with a bounded pool; every wait has an end."""
    is_postgres = url.get_backend_name() == "postgresql"
    try:
        engine = (_postgres_engine if is_postgres else _mysql_engine)(
            url, isolation_level=isolation_level, idle_in_transaction_s=idle_in_transaction_s
        )
    except ModuleNotFoundError as exc:
        extra = "postgres" if is_postgres else "mysql"
        problem = f"the driver {exc.name} is not installed (with a wheel: pip install 'FILE.whl[{extra}]')"
        raise ConfigError(problem, fix=f"pip install 'rota[{extra}]'") from exc
    ping_after_idling(engine)
    return engine


def ping_after_idling(engine: AsyncEngine) -> None:
    """Ask a connection that nobody used for a while whether it still works, and replace it if not.

    One that was used a moment ago is not asked: that would cost every call the time of a message and its answer, and
    should it be dead after all, the transaction is run again."""
    inner = engine.sync_engine

    def note_use(_connection: object, record: ConnectionPoolEntry) -> None:
        record.info["used_at"] = asyncio.get_running_loop().time()

    def check(  # fixed signature: SQLAlchemy's event
        connection: Any, record: ConnectionPoolEntry, _proxy: object
    ) -> None:
        used_at = record.info.get("used_at")
        if used_at is None or asyncio.get_running_loop().time() - used_at < PING_AFTER_S:
            return
        try:
            is_alive = inner.dialect.do_ping(connection)
        except inner.dialect.loaded_dbapi.Error as exc:
            raise DisconnectionError from exc
        if not is_alive:
            raise DisconnectionError

    event.listen(inner, "checkin", note_use)
    event.listen(inner, "checkout", check)


def sqlite_engine(url: URL) -> Engine:
    """A SQLite file in WAL mode; a commit is on disk when it returns."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigError(f"SQLite {sqlite3.sqlite_version} is too old; use a Python built with SQLite 3.35 or newer")
    if not url.database or url.database == ":memory:":
        raise ConfigError("store.url: SQLite needs the path of a file, for example sqlite:///.rota/rota.db")
    _make_private(Path(url.database))
    engine = create_engine(url.set(drivername="sqlite+pysqlite"), hide_parameters=True, poolclass=NullPool)
    event.listen(engine, "connect", lambda connection, _record: prepare_sqlite(connection))
    return engine


def _make_private(path: Path) -> None:
    """A new file, and a new folder for it, is its owner's alone: payloads and results are in it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def prepare_sqlite(connection: sqlite3.Connection) -> None:
    """How a connection of ours is set; nothing has been said on it before."""
    connection.isolation_level = None  # we say BEGIN ourselves
    connection.execute(f"PRAGMA busy_timeout={LOCK_WAIT_S * 1000}")
    _use_wal(connection)
    for pragma in ("synchronous=FULL", "cache_size=-65536"):
        connection.execute(f"PRAGMA {pragma}")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Once for a file, for good. Of two processes that do it at once, SQLite does not let the second one wait."""
    for _ in range(WAL_TRIES):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            connection.execute("BEGIN IMMEDIATE")  # this waits for the first one
            connection.execute("ROLLBACK")
        else:
            return
    connection.execute("PRAGMA journal_mode=WAL")


def _mysql_engine(url: URL, *, isolation_level: str, idle_in_transaction_s: int) -> AsyncEngine:
    from asyncmy.connection import Connection as AsyncmyConnection  # an extra: only who uses MySQL or MariaDB has it

    class Connection(AsyncmyConnection):
        """Does not ask to commit what was committed with its last statement (`batch_mysql.py`)."""

        is_committed = False

        async def commit(self) -> None:
            if not self.is_committed:  # the driver's own view of the server's state is no proof: it may miss a SELECT
                await super().commit()
            self.is_committed = False

        async def rollback(self) -> None:
            self.is_committed = False
            await super().rollback()

    async def connect(**options: Any) -> Connection:
        connection = Connection(**options)  # type: ignore[no-untyped-call]
        try:
            await connection.connect()  # type: ignore[unused-awaitable]  # its stub says that it returns another
        except RuntimeError as exc:  # the driver's word for a server that hung up as soon as it had accepted
            raise ConnectionResetError(str(exc)) from exc
        return connection

    # MySQL reads the last settings as a comment: it can bound neither statements other than SELECT nor transactions.
    session = (
        f"SET time_zone='+00:00', innodb_lock_wait_timeout={LOCK_WAIT_S}, wait_timeout={IDLE_S}"
        f" /*M!100300 , max_statement_time={STATEMENT_S}, idle_transaction_timeout={idle_in_transaction_s} */"
    )
    return create_async_engine(
        url.set(drivername="mysql+asyncmy"),
        connect_args={"connect_timeout": CONNECT_S, "init_command": session, "async_creator_fn": connect},
        **_common(isolation_level),
    )


def _postgres_engine(url: URL, *, isolation_level: str, idle_in_transaction_s: int) -> AsyncEngine:
    import asyncpg  # an extra: only who uses PostgreSQL has it

    class Connection(asyncpg.Connection):  # type: ignore[misc]  # untyped
        """When SQLAlchemy drops a connection it says good-bye for up to 2 s, to one that does not answer."""

        async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 asyncpg's signature
            if timeout is None:
                await super().close()
            else:
                self.terminate()

    settings = {
        "application_name": "rota",
        "timezone": "UTC",
        "lock_timeout": f"{LOCK_WAIT_S}s",
        "statement_timeout": f"{STATEMENT_S}s",
        "idle_in_transaction_session_timeout": f"{idle_in_transaction_s}s",
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "3",
        "tcp_keepalives_count": "3",
    }
    return create_async_engine(
        url.set(drivername="postgresql+asyncpg"),
        connect_args={"timeout": CONNECT_S, "server_settings": settings, "connection_class": Connection},
        **_common(isolation_level),
    )


def _common(isolation_level: str) -> dict[str, Any]:
    return {
        "isolation_level": isolation_level,
        "skip_autocommit_rollback": True,  # there is nothing to roll back, and asking takes time
        "hide_parameters": True,  # payloads are nobody's business in an error message
        "pool_size": POOL_SIZE,
        "max_overflow": 0,
        "pool_timeout": POOL_WAIT_S,
        "pool_recycle": CONNECTION_LIFE_S,
        "pool_reset_on_return": None,  # the runner has committed, rolled back or closed it already
    }


def parse_url(url: str) -> URL:
    """A database URL, or `ConfigError` with the fix."""
    try:
        parsed = make_url(url)
    except ArgumentError as exc:
        raise ConfigError("store.url is not a URL such as sqlite:///.rota/rota.db") from exc
    if parsed.get_backend_name() not in BACKENDS:
        raise ConfigError(f"store.url: {parsed.drivername}:// is not one of {', '.join(sorted(BACKENDS))}")
    return parsed
