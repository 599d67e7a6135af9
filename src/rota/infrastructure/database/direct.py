"""Statements on the driver's own cursor, for the few that are on the path of every task.

SQLAlchemy lends the connection and owns its transaction, but does not execute: its execution context and its
description of some thirty columns took longer than the query itself (ADR-0014). What it does about an error is done
here too: it is wrapped, and a connection that broke never goes back into the pool.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, NoReturn, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.util import await_only

T = TypeVar("T")


def execute(connection: Connection, sql: str, *, parameters: Sequence[Any] = ()) -> DBAPICursor:
    """Run a statement; the cursor has its rows and their number."""
    announce(connection, sql, parameters=parameters)
    try:
        cursor = connection.connection.cursor()
        cursor.execute(sql, parameters)
    except Exception as exc:
        _give_up(connection, exc, sql=sql)
    return cursor


def execute_many(connection: Connection, sql: str, *, rows: Sequence[Sequence[Any]]) -> DBAPICursor:
    """Run a statement for each row; the cursor has the number of rows they met together."""
    announce(connection, sql, parameters=rows, is_many=True)
    try:
        cursor = connection.connection.cursor()
        cursor.executemany(sql, rows)
    except Exception as exc:
        _give_up(connection, exc, sql=sql)
    return cursor


def announce(connection: Connection, sql: str, *, parameters: Sequence[Any] = (), is_many: bool = False) -> None:
    """Tell those who listen to SQLAlchemy's statements (tracing, tests, the benchmark) of one that it will not see."""
    if connection.engine._has_events:
        connection.dispatch.before_cursor_execute(connection, None, sql, parameters, None, is_many)


def driver_of(connection: Connection) -> Any:
    """The async driver's connection, for `talk`."""
    return connection.connection.driver_connection


def talk(connection: Connection, talking: Coroutine[Any, Any, T], *, sql: str) -> T:
    """Await something the async driver does; `sql` is what an error message shows of it, without values."""
    try:
        return await_only(talking)
    except Exception as exc:
        _give_up(connection, exc, sql=sql)


def _give_up(connection: Connection, error: Exception, *, sql: str) -> NoReturn:
    if not isinstance(error, connection.dialect.loaded_dbapi.Error):
        if connection.dialect.is_async:
            connection.invalidate(error)  # nobody knows how far the conversation with the server got
        raise error
    # Not public, but all of it is needed: the wrapping, the closing of a broken connection, and the word to the pool
    # that those as old as it are broken too.
    connection._handle_dbapi_exception(error, sql, None, None, None)
