"""Bulk statements for PostgreSQL: a batch travels as one array per column.

Of a batch that is not small, a column in which all rows have the same value travels as that value: the server neither
reads nor unrolls an array for it. A batch of tasks shares all but its ids and payloads more often than not.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Integer, SmallInteger, Table

from rota.infrastructure.database.batch import Batch, Groups, KeyedChange, Values
from rota.infrastructure.database.bulk import rows_of, without_defaults
from rota.infrastructure.database.bulk_conflict import KEEP, add_number, replace_changed, replace_row
from rota.infrastructure.database.direct import execute
from rota.infrastructure.database.one_by_one import OneByOne

NOW_US = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
FEW = 8  # rows, up to which all columns are arrays: the server then knows the statement, whatever is alike by chance


class PostgresBulk:
    row_lock = "FOR UPDATE"

    def now_us(self, connection: Connection) -> int:
        return int(execute(connection, f"SELECT {NOW_US}").fetchall()[0][0])

    def avoid_sorting(self, connection: Connection) -> None:
        # A table that was analysed while it was short is taken for short until the next time, and sorted whole.
        execute(connection, "SET LOCAL enable_sort = off")

    def insert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        names, values = without_defaults(table, columns=columns, rows=rows)
        _insert(connection, table, columns=names, rows=values)

    def insert_alike(self, connection: Connection, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        self.insert(connection, table, columns=columns, rows=rows_of(groups))

    def insert_missing(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        _insert(connection, table, columns=columns, rows=rows, tail=KEEP)

    def upsert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        _insert(connection, table, columns=columns, rows=rows, tail=replace_row(table, columns))

    def upsert_changed(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values], by: str
    ) -> None:
        _insert(connection, table, columns=columns, rows=rows, tail=replace_changed(table, columns, by=by))

    def add_counts(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        _insert(connection, table, columns=columns, rows=rows, tail=add_number(table, columns[-1]))

    def update(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        _update(connection, table, change=KeyedChange(("id",), tuple(columns)), rows=rows)

    def update_alike(self, connection: Connection, table: Table, *, change: KeyedChange, groups: Groups) -> int:
        return _update(connection, table, change=change, rows=rows_of(groups))

    def update_keyed(
        self, connection: Connection, table: Table, *, change: KeyedChange, rows: Sequence[Values]
    ) -> bool:
        return _update(connection, table, change=change, rows=rows) == len(rows)

    def together(self, connection: Connection, *, is_last: bool = False) -> AbstractContextManager[Batch]:
        return nullcontext(OneByOne(self, connection))

    def select_by_ids(self, connection: Connection, query: str, *, ids: Sequence[int]) -> Sequence[Sequence[Any]]:
        whole = query.format(ids="= ANY($1::bigint[])", now=NOW_US)
        return execute(connection, whole, parameters=(list(ids),)).fetchall()

    def change_by_ids(self, connection: Connection, statement: str, *, ids: Sequence[int]) -> int:
        return execute(connection, statement.format(ids="= ANY($1::bigint[])"), parameters=(list(ids),)).rowcount

    def delete(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> int:
        sent = _send(table, columns, rows=rows)
        match = " AND ".join(map("t.{}={}".format, columns, sent.values))
        statement = f"DELETE FROM {table.name} t USING {sent.unnested} WHERE {match}"
        return execute(connection, statement, parameters=sent.parameters).rowcount

    def delete_alike(self, connection: Connection, table: Table, *, columns: Sequence[str], groups: Groups) -> int:
        return self.delete(connection, table, columns=columns, rows=rows_of(groups))


def _insert(
    connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values], tail: str = ""
) -> None:
    sent = _send(table, columns, rows=rows)
    statement = f"INSERT INTO {table.name} ({','.join(columns)}) SELECT {','.join(sent.values)} FROM {sent.unnested}"
    execute(connection, f"{statement} {tail}", parameters=sent.parameters)


def _update(connection: Connection, table: Table, *, change: KeyedChange, rows: Sequence[Values]) -> int:
    sent = _send(table, [*change.keys, *change.columns, *change.added], rows=rows)
    new = sent.values[len(change.keys) :]
    values = list(map("{}={}".format, change.columns, new))
    values += [f"{name}=t.{name}+{value}" for name, value in zip(change.added, new[len(values) :], strict=True)]
    fence = " AND ".join([f"t.{name}={value}" for name, value in zip(change.keys, sent.values, strict=False)])
    statement = f"UPDATE {table.name} t SET {','.join(values)} FROM {sent.unnested} WHERE {fence}"
    return execute(connection, statement, parameters=sent.parameters).rowcount


class _Sent(NamedTuple):
    """A batch on its way."""

    unnested: str  # what to read it from
    values: list[str]  # how the value of each column is called there
    parameters: tuple[Any, ...]


def _send(table: Table, columns: Sequence[str], *, rows: Sequence[Values]) -> _Sent:
    """The first column is always an array: it says how many rows there are."""
    arrays, names, values, parameters = [], [], [], []
    for place, (name, column) in enumerate(zip(columns, zip(*rows, strict=True), strict=True), start=1):
        if place > 1 and FEW < len(column) == column.count(column[0]):
            values.append(f"${place}::{_type_of(table, name)}")
            parameters.append(column[0])
        else:
            names.append(f"c{place}")
            values.append(f"g.c{place}")
            arrays.append(f"${place}::{_type_of(table, name)}[]")
            parameters.append(list(column))
    return _Sent(f"unnest({','.join(arrays)}) AS g({','.join(names)})", values, tuple(parameters))


def _type_of(table: Table, name: str) -> str:
    kind = table.c[name].type
    if isinstance(kind, BigInteger):
        return "bigint"
    if isinstance(kind, SmallInteger):
        return "smallint"
    return "int" if isinstance(kind, Integer) else "text"
