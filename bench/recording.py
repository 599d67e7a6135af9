"""The statements that the store sends, recorded, to be sent again by a bare driver: the same work without our code."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, event


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    parameters: Any
    is_many: bool

    @property
    def is_write(self) -> bool:
        return not self.sql.lstrip().startswith(("SELECT", "SHOW", "SET", "select", "show"))


@dataclass(slots=True)
class Recording:
    """Transactions in the order of their commits, each a list of statements."""

    transactions: list[list[Statement]] = field(default_factory=list)
    _open: dict[int, list[Statement]] = field(default_factory=dict)  # by connection

    def add(self, connection: Connection, statement: Statement) -> None:
        self._open.setdefault(id(connection), []).append(statement)

    def commit(self, connection: Connection) -> None:
        self.transactions.append(self._open.pop(id(connection), []))

    def cut(self) -> list[list[Statement]]:
        """What was sent since the last cut, also what nobody commits: reads. For moments when nothing is under way."""
        sent = [part for part in (*self.transactions, *self._open.values()) if part]
        self.transactions.clear()
        self._open.clear()
        return sent


@contextmanager
def recording() -> Iterator[Recording]:
    """Record every statement of every SQLAlchemy engine in this process."""
    tape = Recording()

    def on_execute(  # fixed signature: SQLAlchemy's event  # noqa: PLR0913 it has six
        connection: Connection, cursor: Any, sql: str, parameters: Any, context: Any, is_many: bool
    ) -> None:
        if sql == "COMMIT":  # SQLite's goes to the driver as the statements do
            tape.commit(connection)
        elif not sql.startswith("BEGIN"):
            tape.add(connection, Statement(sql, parameters, is_many))

    def on_commit(connection: Connection) -> None:
        tape.commit(connection)

    event.listen(Engine, "before_cursor_execute", on_execute)
    event.listen(Engine, "commit", on_commit)
    try:
        yield tape
    finally:
        event.remove(Engine, "before_cursor_execute", on_execute)
        event.remove(Engine, "commit", on_commit)
