"""Bulk statements for PostgreSQL: a batch travels as one array per column."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sqlalchemy import BigInteger, Connection, Integer, SmallInteger, Table

from rota.infrastructure.database.batch import Batch, KeyedChange, Values
from rota.infrastructure.database.bulk import without_defaults
from rota.infrastructure.database.bulk_conflict import KEEP, add_number, replace_changed, replace_row
from rota.infrastructure.database.direct import execute
from rota.infrastructure.database.one_by_one import OneByOne


class PostgresBulk:
    row_lock = "FOR UPDATE"

    def now_us(self, connection: Connection) -> int:
        clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        return int(execute(connection, clock).fetchall()[0][0])

    def avoid_sorting(self, connection: Connection) -> None:
        # A table that was analysed while it was short is taken for short until the next time, and sorted whole.
        execute(connection, "SET LOCAL enable_sort = off")

    def insert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        names, values = without_defaults(table, columns=columns, rows=rows)
        execute(connection, _insert(table, names), parameters=_arrays(values))

    def insert_missing(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        execute(connection, f"{_insert(table, columns)} {KEEP}", parameters=_arrays(rows))

    def upsert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        execute(connection, f"{_insert(table, columns)} {replace_row(table, columns)}", parameters=_arrays(rows))

    def upsert_changed(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values], by: str
    ) -> None:
        clause = replace_changed(table, columns, by=by)
        execute(connection, f"{_insert(table, columns)} {clause}", parameters=_arrays(rows))

    def add_counts(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        clause = add_number(table, columns[-1])
        execute(connection, f"{_insert(table, columns)} {clause}", parameters=_arrays(rows))

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
        return execute(connection, query.format(ids="= ANY($1::bigint[])"), parameters=(list(ids),)).fetchall()

    def change_by_ids(self, connection: Connection, statement: str, *, ids: Sequence[int]) -> int:
        return execute(connection, statement.format(ids="= ANY($1::bigint[])"), parameters=(list(ids),)).rowcount

    def delete(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> int:
        match = " AND ".join(f"t.{name}=g.{name}" for name in columns)
        return execute(
            connection,
            f"DELETE FROM {table.name} t USING unnest({_unnested(table, columns)}) AS g({','.join(columns)})"
            f" WHERE {match}",
            parameters=_arrays(rows),
        ).rowcount


def _insert(table: Table, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table.name} ({','.join(columns)}) SELECT * FROM unnest({_unnested(table, columns)})"


def _update(connection: Connection, table: Table, *, change: KeyedChange, rows: Sequence[Values]) -> int:
    # The new value of a fence column stands beside the expected one, so each array has a name of its own.
    expected = [f"old_{name}" for name in change.keys]
    given = [f"new_{name}" for name in (*change.columns, *change.added)]
    values = [f"{name}=g.new_{name}" for name in change.columns]
    changes = ",".join([*values, *(f"{name}=t.{name}+g.new_{name}" for name in change.added)])
    fence = " AND ".join(f"t.{name}=g.old_{name}" for name in change.keys)
    arrays = _unnested(table, [*change.keys, *change.columns, *change.added])
    return execute(
        connection,
        f"UPDATE {table.name} t SET {changes} FROM unnest({arrays}) AS g({','.join(expected + given)}) WHERE {fence}",
        parameters=_arrays(rows),
    ).rowcount


def _unnested(table: Table, columns: Sequence[str]) -> str:
    return ",".join(f"${place}::{_type_of(table, name)}[]" for place, name in enumerate(columns, start=1))


def _type_of(table: Table, name: str) -> str:
    kind = table.c[name].type
    if isinstance(kind, BigInteger):
        return "bigint"
    if isinstance(kind, SmallInteger):
        return "smallint"
    return "int" if isinstance(kind, Integer) else "text"


def _arrays(rows: Sequence[Values]) -> tuple[list[Any], ...]:
    return tuple(list(column) for column in zip(*rows, strict=True))
