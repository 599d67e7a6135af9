"""A batch whose statements are run as they come."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Table

from rota.infrastructure.database.batch import FenceMissedError, KeyedChange, RowCopy, Values, copy_rows
from rota.infrastructure.database.bulk import Bulk
from rota.infrastructure.database.direct import execute


@dataclass(frozen=True, slots=True)
class OneByOne:
    """For databases where a message more costs next to nothing, or which take one statement at a time."""

    bulk: Bulk
    connection: Connection

    def insert(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self.bulk.insert(self.connection, table, columns=columns, rows=rows)

    def insert_copies(self, table: Table, copy: RowCopy, *, ids: Sequence[int]) -> None:
        execute(self.connection, copy_rows(table, copy, ids=ids))

    def upsert(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self.bulk.upsert(self.connection, table, columns=columns, rows=rows)

    def add_counts(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self.bulk.add_counts(self.connection, table, columns=columns, rows=rows)

    def update(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self.bulk.update(self.connection, table, columns=columns, rows=rows)

    def update_fenced(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        if self.bulk.update_fenced(self.connection, table, columns=columns, rows=rows) != len(rows):
            raise FenceMissedError

    def update_keyed(self, table: Table, change: KeyedChange, *, rows: Sequence[Values]) -> None:
        if not self.bulk.update_keyed(self.connection, table, change=change, rows=rows):
            raise FenceMissedError

    def delete_fenced(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        if self.bulk.delete(self.connection, table, columns=columns, rows=rows) != len(rows):
            raise FenceMissedError
