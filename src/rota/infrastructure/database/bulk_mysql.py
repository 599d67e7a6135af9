"""Bulk statements for MySQL 8 and MariaDB ≥ 10.6: only what both understand."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table

from rota.infrastructure.database.bulk import Values, grouped, without_defaults
from rota.infrastructure.database.direct import driver_of, talk

FEW_GROUPS = 16  # up to here one UPDATE … IN per group is cheaper than one joined to a JSON table


class MysqlBulk:
    row_lock = "FOR UPDATE"

    def now_us(self, connection: Connection) -> int:
        ((now,),) = _read(connection, "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)")
        return int(now)

    def avoid_sorting(self, connection: Connection) -> None:
        pass  # a statement names the index it needs

    def insert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        names, values = without_defaults(table, columns=columns, rows=rows)
        _write_rows(connection, _insert(table, names), rows=values)

    def insert_missing(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        key = next(iter(table.primary_key.columns)).name
        # Not INSERT IGNORE: that would also turn a text that is too long into a shorter one.
        _write_rows(connection, f"{_insert(table, columns)} ON DUPLICATE KEY UPDATE {key}={key}", rows=rows)

    def upsert(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        changes = ",".join(f"{name}=VALUES({name})" for name in columns)
        _write_rows(connection, f"{_insert(table, columns)} ON DUPLICATE KEY UPDATE {changes}", rows=rows)

    def upsert_changed(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values], by: str
    ) -> None:
        # The deciding column comes last: an assignment sees what those before it have done.
        others = [f"{name}=IF({by}=VALUES({by}),{name},VALUES({name}))" for name in columns if name != by]
        changes = ",".join([*others, f"{by}=VALUES({by})"])
        _write_rows(connection, f"{_insert(table, columns)} ON DUPLICATE KEY UPDATE {changes}", rows=rows)

    def add_counts(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> None:
        change = f"{columns[-1]}={columns[-1]}+VALUES({columns[-1]})"
        _write_rows(connection, f"{_insert(table, columns)} ON DUPLICATE KEY UPDATE {change}", rows=rows)

    def update(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        groups = grouped(rows, key_from=1)
        if len(groups) > FEW_GROUPS:
            _update_joined(connection, table, keys=("id",), columns=columns, rows=rows)
            return
        for values, ids in groups.items():
            _update(connection, table, columns=columns, values=values, where=_in(ids))

    def update_fenced(
        self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]
    ) -> int:
        groups = grouped(rows, key_from=1)
        if len(groups) > FEW_GROUPS:
            return _update_joined(connection, table, keys=("id", "version"), columns=columns, rows=rows)
        return sum(
            _update(connection, table, columns=columns, values=values, where=f"{_in(ids)} AND version={version:d}")
            for (version, *values), ids in groups.items()
        )

    def select_by_ids(self, connection: Connection, query: str, *, ids: Sequence[int]) -> Sequence[Sequence[Any]]:
        return _read(connection, query.format(ids=f"IN ({_join(ids)})"))

    def change_by_ids(self, connection: Connection, statement: str, *, ids: Sequence[int]) -> int:
        return _write(connection, statement.format(ids=f"IN ({_join(ids)})"))

    def delete(self, connection: Connection, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> int:
        # DELETE … IN scans a short table, whatever index it is told to use, and waits for all that others have locked.
        shape = ",".join(f"{name} BIGINT PATH '$[{place}]'" for place, name in enumerate(columns))
        match = " AND ".join(f"t.{name}=j.{name}" for name in columns)
        return _write(
            connection,
            f"DELETE t FROM JSON_TABLE(%s, '$[*]' COLUMNS ({shape})) j"
            f" STRAIGHT_JOIN {table.name} t FORCE INDEX (PRIMARY) ON {match}",
            _json(rows),
        )


def _read(connection: Connection, sql: str) -> Sequence[Sequence[Any]]:
    async def fetch(driver: Any) -> Sequence[Sequence[Any]]:
        cursor = driver.cursor()
        await cursor.execute(sql)
        rows: Sequence[Sequence[Any]] = await cursor.fetchall()
        return rows

    return talk(connection, fetch(driver_of(connection)), sql=sql)


def _write(connection: Connection, sql: str, *values: str) -> int:
    """Run a statement and say how many rows it met."""
    driver = driver_of(connection)
    filled = sql % tuple(driver.literal(value) for value in values) if values else sql
    # Not on a cursor: that would ask for the text of each warning, and MySQL has one about VALUES().
    return int(talk(connection, driver.query(filled), sql=sql))


def _write_rows(connection: Connection, sql: str, *, rows: Sequence[Values]) -> None:
    """Insert rows in statements that fit into a packet."""
    talk(connection, driver_of(connection).cursor().executemany(sql, rows), sql=sql)


def _insert(table: Table, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table.name} ({','.join(columns)}) VALUES ({','.join(['%s'] * len(columns))})"


def _update(connection: Connection, table: Table, *, columns: Sequence[str], values: Sequence[int], where: str) -> int:
    changes = ",".join(f"{name}={value:d}" for name, value in zip(columns, values, strict=True))
    return _write(connection, f"UPDATE {table.name} SET {changes} WHERE {where}")


def _update_joined(
    connection: Connection, table: Table, *, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Values]
) -> int:
    shape = ",".join(f"c{place} BIGINT PATH '$[{place}]'" for place in range(len(keys) + len(columns)))
    match = " AND ".join(f"t.{name}=j.c{place}" for place, name in enumerate(keys))
    changes = ",".join(f"t.{name}=j.c{place}" for place, name in enumerate(columns, start=len(keys)))
    return _write(
        connection,
        f"UPDATE JSON_TABLE(%s, '$[*]' COLUMNS ({shape})) j STRAIGHT_JOIN {table.name} t FORCE INDEX (PRIMARY)"
        f" ON {match} SET {changes}",
        _json(rows),
    )


def _in(ids: Sequence[int]) -> str:
    return f"id IN ({_join(ids)})"


def _join(ids: Sequence[int]) -> str:
    return ",".join([f"{number:d}" for number in ids])


def _json(rows: Sequence[Values]) -> str:
    return json.dumps(rows, separators=(",", ":"))
