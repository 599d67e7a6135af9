"""Bulk statements for MySQL 8 and MariaDB ≥ 10.6: only what both understand."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Table

from rota.infrastructure.database.batch import Batch, FenceMissedError, KeyedChange, Values
from rota.infrastructure.database.batch_mysql import MysqlBatch
from rota.infrastructure.database.bulk import grouped, without_defaults
from rota.infrastructure.database.bulk_mysql_statements import (
    Statement,
    adding,
    deletion,
    insert_into,
    join,
    keeping,
    read,
    replacing,
    updates,
    write,
    write_rows,
)

NOW_US = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"


class MysqlBulk:
    row_lock = "FOR UPDATE"

    def now_us(self, connection: Connection) -> int:
        ((now,),) = read(connection, f"SELECT {NOW_US}")
        return int(now)

    def avoid_sorting(self, connection: Connection) -> None:
        pass  # a statement names the index it needs

    def insert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        names, values = without_defaults(table, columns=columns, rows=rows)
        write_rows(connection, insert_into(table, names), rows=values)

    def insert_missing(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        write_rows(connection, keeping(table, columns), rows=rows)

    def upsert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        write_rows(connection, replacing(table, columns), rows=rows)

    def upsert_changed(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values], by: str
    ) -> None:
        # The deciding column comes last: an assignment sees what those before it have done.
        others = [f"{name}=IF({by}=VALUES({by}),{name},VALUES({name}))" for name in columns if name != by]
        changes = ",".join([*others, f"{by}=VALUES({by})"])
        write_rows(connection, insert_into(table, columns, tail=f" ON DUPLICATE KEY UPDATE {changes}"), rows=rows)

    def add_counts(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        write_rows(connection, adding(table, columns), rows=rows)

    def update(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        write(connection, updates(table, columns, groups=grouped(rows)))

    def update_keyed(
        self, connection: Connection, table: Table, *, change: KeyedChange, rows: Sequence[Values]
    ) -> bool:
        try:
            with self.together(connection) as batch:
                batch.update_keyed(table, change, rows=rows)
        except FenceMissedError:
            return False
        return True

    @contextmanager
    def together(self, connection: Connection, *, is_last: bool = False) -> Iterator[Batch]:
        batch = MysqlBatch(connection)
        yield batch
        batch.send(commits=is_last)

    def select_by_ids(self, connection: Connection, query: str, *, ids: Sequence[int]) -> Sequence[Sequence[Any]]:
        return read(connection, query.format(ids=f"IN ({join(ids)})", now=NOW_US))

    def change_by_ids(self, connection: Connection, statement: str, *, ids: Sequence[int]) -> int:
        return write(connection, [Statement(statement.format(ids=f"IN ({join(ids)})"))])

    def delete(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> int:
        return write(connection, [deletion(table, columns, rows=rows)])
