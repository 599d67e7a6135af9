"""Many rows in one statement, the way each database does it fastest. No knowledge of what the rows mean.

SQLAlchemy builds and runs the ordinary statements; these few are on the path of every task, are text in the database's
own SQL (measured in ADR-0004) and go straight to the driver (ADR-0014). Table and column names come from our schema,
numbers are formatted as integers, and text always travels as a parameter.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

from sqlalchemy import Column, Connection, Table

from rota.infrastructure.database.batch import Batch, Groups, KeyedChange, Values


class Bulk(Protocol):
    """One implementation per database; a batch is at most a few thousand rows."""

    @property
    def row_lock(self) -> str:
        """What to put behind a SELECT to lock its rows until the end of the transaction."""
        ...

    def now_us(self, connection: Connection) -> int:
        """The database's own clock in microseconds since 1970."""
        ...

    def avoid_sorting(self, connection: Connection) -> None:
        """Until the end of the transaction, read in the order of an index where there is one."""
        ...

    def insert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert all rows; a duplicate key is an error."""
        ...

    def insert_missing(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        """Insert the rows whose key is not there yet; the others are left as they are."""
        ...

    def upsert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert, or replace the given columns of the row with the same key."""
        ...

    def upsert_changed(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values], by: str
    ) -> None:
        """Insert, or replace the given columns of the row with the same key if it differs in the column `by`."""
        ...

    def add_counts(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        """Insert, or add the last column to the row with the same key."""
        ...

    def update(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Set columns by id: each row is (id, *values)."""
        ...

    def update_keyed(
        self, connection: Connection, table: Table, *, change: KeyedChange, rows: Sequence[Values]
    ) -> bool:
        """Change the rows that have these keys, in the order given. False if one is not there; then roll back."""
        ...

    def together(self, connection: Connection, *, is_last: bool = False) -> AbstractContextManager[Batch]:
        """A block of writes that need no answer in between; inside it the connection is used by nothing else.

        `is_last`: nothing comes after them in this transaction, so that it may be committed with them, if it is certain
        that a fence which is missed leaves nothing to commit."""
        ...

    def select_by_ids(self, connection: Connection, query: str, *, ids: Sequence[int]) -> Sequence[Sequence[Any]]:
        """Run a query in which `{ids}` stands for "is one of these ids", and `{now}` for what `now_us` would say."""
        ...

    def change_by_ids(self, connection: Connection, statement: str, *, ids: Sequence[int]) -> int:
        """Run an UPDATE or DELETE in which `{ids}` stands for "is one of these ids". How many rows it met."""
        ...

    def delete(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> int:
        """Delete what agrees with one of the rows in these columns, the first of which begin the primary key.

        Goes from row to row by the primary key, so it waits for no other row that somebody has locked. How many were
        there."""
        ...


def without_defaults(
    table: Table, *, columns: Sequence[str], rows: Sequence[Values]
) -> tuple[list[str], Sequence[Values]]:
    """Leave out the columns in which every row has the table's default: a literal not sent is not parsed."""
    # By column and with tuple methods: this looks at every value of every row that is inserted.
    kept = [
        (name, values)
        for name, values in zip(columns, zip(*rows, strict=True), strict=True)
        if values.count(_default_of(table.c[name])) != len(values)
    ]
    return [name for name, _ in kept], list(zip(*(values for _, values in kept), strict=True))


_NO_DEFAULT = object()  # equal to no value


@cache
def _default_of(column: Column[Any]) -> Any:
    if column.server_default is None:
        return None if column.nullable else _NO_DEFAULT
    text = str(getattr(column.server_default, "arg", ""))
    return int(text) if column.type.python_type is int else text


def grouped(rows: Sequence[Values]) -> Groups:
    """Rows (id, *values) by what they have beside their ids."""
    groups: dict[Values, list[int]] = {}
    for row in rows:
        groups.setdefault(row[1:], []).append(row[0])
    return groups


def rows_of(groups: Groups) -> list[Values]:
    """The rows (id, *values) of all groups."""
    return [(number, *values) for values, ids in groups.items() for number in ids]


def size_of(groups: Groups) -> int:
    """How many rows there are."""
    return sum(map(len, groups.values()))
