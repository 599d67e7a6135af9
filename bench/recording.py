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


@dataclass(slots=True)
class Recording:
    """Transactions in order, each a list of statements."""

    transactions: list[list[Statement]] = field(default_factory=list)
    _open: list[Statement] = field(default_factory=list)

    def add(self, statement: Statement) -> None:
        self._open.append(statement)

    def commit(self) -> None:
        self.transactions.append(self._open)
        self._open = []


@contextmanager
def recording() -> Iterator[Recording]:
    """Record every statement of every SQLAlchemy engine in this process."""
    tape = Recording()

    def on_execute(  # fixed signature: SQLAlchemy's event  # noqa: PLR0913 it has six
        connection: Connection, cursor: Any, sql: str, parameters: Any, context: Any, is_many: bool
    ) -> None:
        if sql == "COMMIT":  # SQLite's goes to the driver as the statements do
            tape.commit()
        elif not sql.startswith("BEGIN"):
            tape.add(Statement(sql, parameters, is_many))

    def on_commit(connection: Connection) -> None:
        tape.commit()

    event.listen(Engine, "before_cursor_execute", on_execute)
    event.listen(Engine, "commit", on_commit)
    try:
        yield tape
    finally:
        event.remove(Engine, "before_cursor_execute", on_execute)
        event.remove(Engine, "commit", on_commit)
