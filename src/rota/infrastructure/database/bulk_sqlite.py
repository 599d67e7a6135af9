"""Bulk statements for SQLite: prepared once, run per row inside the process."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table

from rota.infrastructure.database.batch import Batch, KeyedChange, Values
from rota.infrastructure.database.bulk_conflict import KEEP, add_number, replace_changed, replace_row
from rota.infrastructure.database.direct import execute, execute_many
from rota.infrastructure.database.one_by_one import OneByOne
from rota.infrastructure.instants import to_us


class SqliteBulk:
    row_lock = ""  # one writer: it has the whole file

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now  # the file has no clock of its own

    def now_us(self, connection: Connection) -> int:
        return to_us(self._now())

    def avoid_sorting(self, connection: Connection) -> None:
        pass  # the planner does, unless ANALYZE has told it otherwise

    def insert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        execute_many(connection, _insert(table, columns), rows=rows)

    def insert_missing(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        execute_many(connection, f"{_insert(table, columns)} {KEEP}", rows=rows)

    def upsert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        execute_many(connection, f"{_insert(table, columns)} {replace_row(table, columns)}", rows=rows)

    def upsert_changed(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values], by: str
    ) -> None:
        clause = replace_changed(table, columns, by=by)
        execute_many(connection, f"{_insert(table, columns)} {clause}", rows=rows)

    def add_counts(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        clause = add_number(table, columns[-1])
        execute_many(connection, f"{_insert(table, columns)} {clause}", rows=rows)

    def update(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        _update(connection, table, change=KeyedChange(("id",), tuple(columns)), rows=rows)

    def update_fenced(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> int:
        return _update(connection, table, change=KeyedChange(("id", "version"), tuple(columns)), rows=rows)

    def update_keyed(
        self, connection: Connection, table: Table, *, change: KeyedChange, rows: Sequence[Values]
    ) -> bool:
        return _update(connection, table, change=change, rows=rows) == len(rows)

    def together(self, connection: Connection, *, is_last: bool = False) -> AbstractContextManager[Batch]:
        return nullcontext(OneByOne(self, connection))

    def select_by_ids(self, connection: Connection, query: str, *, ids: Sequence[int]) -> Sequence[Sequence[Any]]:
        inlined = ",".join([f"{number:d}" for number in ids])
        return execute(connection, query.format(ids=f"IN ({inlined})")).fetchall()

    def change_by_ids(self, connection: Connection, statement: str, *, ids: Sequence[int]) -> int:
        inlined = ",".join([f"{number:d}" for number in ids])
        return execute(connection, statement.format(ids=f"IN ({inlined})")).rowcount

    def delete(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> int:
        match = " AND ".join(f"{name}=?" for name in columns)
        return execute_many(connection, f"DELETE FROM {table.name} WHERE {match}", rows=rows).rowcount


def _insert(table: Table, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table.name} ({','.join(columns)}) VALUES ({','.join('?' * len(columns))})"


def _update(connection: Connection, table: Table, *, change: KeyedChange, rows: Sequence[Values]) -> int:
    given = (*change.keys, *change.columns, *change.added)
    place = [f"?{number}" for number in range(1, len(given) + 1)]
    fence = " AND ".join(map("{}={}".format, change.keys, place))
    new = place[len(change.keys) :]
    values = list(map("{}={}".format, change.columns, new))
    values += [f"{name}={name}+{value}" for name, value in zip(change.added, new[len(change.columns) :], strict=True)]
    return execute_many(connection, f"UPDATE {table.name} SET {','.join(values)} WHERE {fence}", rows=rows).rowcount
