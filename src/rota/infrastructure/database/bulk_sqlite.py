"""Bulk statements for SQLite: many rows in one step of the library.

Python's module lets go of the interpreter lock for every step and has to get it back after: where another thread
computes meanwhile, that takes up to 5 ms. A batch that is a step for each row therefore crawls just when there is much
to do; one that is a few steps runs beside the others, on another core. So rows are inserted a hundred at a time, those
that are alike, or become so, in one statement, and what is found comes back as one text.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Any

import msgspec
from sqlalchemy import Connection, Table

from rota.infrastructure.database.batch import Batch, Groups, KeyedChange, Values
from rota.infrastructure.database.bulk import grouped, rows_of, size_of
from rota.infrastructure.database.bulk_conflict import KEEP, add_number, replace_changed, replace_row
from rota.infrastructure.database.direct import execute, execute_many
from rota.infrastructure.database.one_by_one import OneByOne
from rota.infrastructure.instants import to_us

AT_ONCE = (100, 10, 1)  # rows in one INSERT: few statements, so that SQLite has them prepared
ALIKE = 4  # rows that must share what they become, on average, for a statement of their own
_THESE = "(SELECT value FROM json_each(?))"


class SqliteBulk:
    row_lock = ""  # one writer: it has the whole file

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now  # the file has no clock of its own

    def now_us(self, connection: Connection) -> int:
        return to_us(self._now())

    def avoid_sorting(self, connection: Connection) -> None:
        pass  # the planner does, unless ANALYZE has told it otherwise

    def insert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        _insert(connection, table, columns=columns, rows=rows)

    def insert_alike(self, connection: Connection, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        if not _is_alike(groups):
            _insert(connection, table, columns=columns, rows=rows_of(groups))
            return
        values = ",".join(f"?{number}" for number in range(2, len(columns) + 1))
        statement = f"INSERT INTO {table.name} ({','.join(columns)}) SELECT value,{values} FROM json_each(?1)"
        for same, ids in groups.items():
            execute(connection, statement, parameters=(_json(ids), *same))

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
        self.update_alike(connection, table, change=KeyedChange(("id",), tuple(columns)), groups=grouped(rows))

    def update_alike(self, connection: Connection, table: Table, *, change: KeyedChange, groups: Groups) -> int:
        is_alike = _is_alike(groups)
        statement = _updating(table, change, is_alike=is_alike)
        if is_alike:
            changes = [execute(connection, statement, parameters=(*same, _json(ids))) for same, ids in groups.items()]
            return sum(one.rowcount for one in changes)
        return execute_many(connection, statement, rows=_turned(groups)).rowcount

    def update_keyed(
        self, connection: Connection, table: Table, *, change: KeyedChange, rows: Sequence[Values]
    ) -> bool:
        return self.update_alike(connection, table, change=change, groups=grouped(rows)) == len(rows)

    def together(self, connection: Connection, *, is_last: bool = False) -> AbstractContextManager[Batch]:
        return nullcontext(OneByOne(self, connection))

    def select_by_ids(self, connection: Connection, query: str, *, ids: Sequence[int]) -> Sequence[Sequence[Any]]:
        columns, rest = query.removeprefix("SELECT ").split(" FROM ", 1)
        whole = f"SELECT json_group_array(json_array({columns})) FROM {rest}"
        whole = whole.format(ids=f"IN {_THESE}", now=self.now_us(connection) if "{now}" in columns else "")
        ((found,),) = execute(connection, whole, parameters=(_json(ids),)).fetchall()
        rows: list[list[Any]] = msgspec.json.decode(found)
        return rows

    def change_by_ids(self, connection: Connection, statement: str, *, ids: Sequence[int]) -> int:
        return execute(connection, statement.format(ids=f"IN {_THESE}"), parameters=(_json(ids),)).rowcount

    def delete(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> int:
        return self.delete_alike(connection, table, columns=columns, groups=grouped(rows))

    def delete_alike(self, connection: Connection, table: Table, *, columns: Sequence[str], groups: Groups) -> int:
        key, *others = columns
        match = "".join(f"{name}=? AND " for name in others)
        if _is_alike(groups):
            statement = f"DELETE FROM {table.name} WHERE {match}{key} IN {_THESE}"
            gone = [execute(connection, statement, parameters=(*same, _json(keys))) for same, keys in groups.items()]
            return sum(one.rowcount for one in gone)
        statement = f"DELETE FROM {table.name} WHERE {match}{key}=?"
        return execute_many(connection, statement, rows=_turned(groups)).rowcount


def _insert(
    connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values], tail: str = ""
) -> None:
    row = f"({','.join('?' * len(columns))})"
    place = 0
    for size in AT_ONCE:
        statement = f"INSERT INTO {table.name} ({','.join(columns)}) VALUES {','.join([row] * size)} {tail}"
        while len(rows) - place >= size:
            values = list(chain.from_iterable(rows[place : place + size]))
            execute(connection, statement, parameters=values)
            place += size


@cache
def _updating(table: Table, change: KeyedChange, *, is_alike: bool) -> str:
    """The statement that takes (*fences, *values) and then a key, or many that become alike."""
    key, *fences = change.keys
    given = (*fences, *change.columns, *change.added)
    place = [f"?{number}" for number in range(1, len(given) + 2)]
    new = place[len(fences) :]
    values = list(map("{}={}".format, change.columns, new))
    values += [f"{name}={name}+{value}" for name, value in zip(change.added, new[len(values) : -1], strict=True)]
    fence = "".join(f"{name}={value} AND " for name, value in zip(fences, place, strict=False))
    which = f"{key} IN (SELECT value FROM json_each({place[-1]}))" if is_alike else f"{key}={place[-1]}"
    return f"UPDATE {table.name} SET {','.join(values)} WHERE {fence}{which}"


def _is_alike(groups: Groups) -> bool:
    """Whether a statement for each group is worth it."""
    return len(groups) * ALIKE <= size_of(groups)


def _turned(groups: Groups) -> list[Values]:
    return [(*values, key) for values, keys in groups.items() for key in keys]


def _json(ids: Sequence[int]) -> str:
    return msgspec.json.encode(list(ids)).decode()
