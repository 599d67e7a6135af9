"""A batch whose statements are run as they come."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection, Table

from rota.infrastructure.database.batch import FenceMissedError, Groups, KeyedChange, RowCopy, Values, copy_rows
from rota.infrastructure.database.bulk import Bulk, size_of
from rota.infrastructure.database.direct import execute


class BulkOfGroups(Bulk, Protocol):
    """Also takes rows by groups: what the rows of a group share is told once."""

    def insert_alike(self, connection: Connection, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        """Insert a row (id, *values) for each id of each group; a duplicate key is an error."""
        ...

    def update_alike(self, connection: Connection, table: Table, *, change: KeyedChange, groups: Groups) -> int:
        """Change rows by their first key; a group is told by (*other keys, *columns, *added). How many were there."""
        ...

    def delete_alike(self, connection: Connection, table: Table, *, columns: Sequence[str], groups: Groups) -> int:
        """Delete rows by their first column; a group is told by the others. How many were there."""
        ...


@dataclass(frozen=True, slots=True)
class OneByOne:
    """For databases where a message more costs next to nothing, or which take one statement at a time."""

    bulk: BulkOfGroups
    connection: Connection

    def insert(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self.bulk.insert(self.connection, table, columns=columns, rows=rows)

    def insert_alike(self, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        self.bulk.insert_alike(self.connection, table, columns=columns, groups=groups)

    def insert_copies(self, table: Table, copy: RowCopy, *, ids: Sequence[int]) -> None:
        execute(self.connection, copy_rows(table, copy, ids=ids))

    def insert_missing(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self.bulk.insert_missing(self.connection, table, columns=columns, rows=rows)

    def upsert(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self.bulk.upsert(self.connection, table, columns=columns, rows=rows)

    def add_counts(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self.bulk.add_counts(self.connection, table, columns=columns, rows=rows)

    def update(self, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        self.bulk.update_alike(self.connection, table, change=KeyedChange(("id",), tuple(columns)), groups=groups)

    def update_fenced(self, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        change = KeyedChange(("id", "version"), tuple(columns))
        if self.bulk.update_alike(self.connection, table, change=change, groups=groups) != size_of(groups):
            raise FenceMissedError

    def update_keyed(self, table: Table, change: KeyedChange, *, rows: Sequence[Values]) -> None:
        if not self.bulk.update_keyed(self.connection, table, change=change, rows=rows):
            raise FenceMissedError

    def delete_fenced(self, table: Table, *, groups: Groups) -> None:
        met = self.bulk.delete_alike(self.connection, table, columns=("id", "version"), groups=groups)
        if met != size_of(groups):
            raise FenceMissedError
