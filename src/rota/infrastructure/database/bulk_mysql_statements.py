"""The text of bulk statements for MySQL and MariaDB, and how it is sent."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, String, Table

from rota.infrastructure.database.batch import KeyedChange, Values
from rota.infrastructure.database.bulk import grouped
from rota.infrastructure.database.direct import announce, driver_of, talk

MOST_CHARACTERS = 200_000  # of up to four bytes: less than the smallest limit of a packet in use, 1 MiB
MOST_ROWS = 1000  # that are spelt in one go: the loop does nothing else meanwhile
NAMES_AT_ONCE = 100  # by which one UPDATE tells rows apart
FEW_GROUPS = 16  # up to here one UPDATE … IN per group is cheaper than one joined to a JSON table


class Insert(NamedTuple):
    """An INSERT of any number of rows."""

    head: str
    row: str
    tail: str = ""

    @property
    def sql(self) -> str:
        return f"{self.head}{self.row}{self.tail}"


class Statement(NamedTuple):
    """An UPDATE or DELETE whose numbers are in its text; what it takes as JSON or text fills the placeholders."""

    sql: str
    texts: tuple[str, ...] = ()


def insert_into(table: Table, columns: Sequence[str], *, tail: str = "") -> Insert:
    return Insert(
        f"INSERT INTO {table.name} ({','.join(columns)}) VALUES ", f"({','.join(['%s'] * len(columns))})", tail
    )


def replacing(table: Table, columns: Sequence[str]) -> Insert:
    changes = ",".join(f"{name}=VALUES({name})" for name in columns)
    return insert_into(table, columns, tail=f" ON DUPLICATE KEY UPDATE {changes}")


def adding(table: Table, columns: Sequence[str]) -> Insert:
    change = f"{columns[-1]}={columns[-1]}+VALUES({columns[-1]})"
    return insert_into(table, columns, tail=f" ON DUPLICATE KEY UPDATE {change}")


def updates(table: Table, columns: Sequence[str], *, rows: Sequence[Values]) -> list[Statement]:
    """Set columns by id."""
    groups = grouped(rows, key_from=1)
    if len(groups) > FEW_GROUPS:
        return [_update_joined(table, KeyedChange(("id",), tuple(columns)), rows=rows)]
    return [_update(table, columns, values=values, where=in_ids(ids)) for values, ids in groups.items()]


def fenced_updates(table: Table, columns: Sequence[str], *, rows: Sequence[Values]) -> list[Statement]:
    """Set columns by id and version."""
    groups = grouped(rows, key_from=1)
    if len(groups) > FEW_GROUPS:
        return [_update_joined(table, KeyedChange(("id", "version"), tuple(columns)), rows=rows)]
    return [
        _update(table, columns, values=values, where=f"{in_ids(ids)} AND version={version:d}")
        for (version, *values), ids in groups.items()
    ]


def keyed_updates(table: Table, change: KeyedChange, *, rows: Sequence[Values]) -> list[Statement]:
    """Change rows by keys, in the order given."""
    if isinstance(table.c[change.keys[0]].type, String):
        return list(_update_named(table, change, rows=rows))
    return [_update_joined(table, change, rows=rows)]


def _update_joined(table: Table, change: KeyedChange, *, rows: Sequence[Values]) -> Statement:
    """Keys that are numbers: joined to a table of JSON, each found by the primary key."""
    names = (*change.keys, *change.columns)
    shape = ",".join(f"c{place} BIGINT PATH '$[{place}]'" for place in range(len(names)))
    match = " AND ".join(f"t.{name}=j.c{place}" for place, name in enumerate(change.keys))
    changes = ",".join(f"t.{name}=j.c{place}" for place, name in enumerate(change.columns, start=len(change.keys)))
    sql = (
        f"UPDATE JSON_TABLE(%s, '$[*]' COLUMNS ({shape})) j STRAIGHT_JOIN {table.name} t FORCE INDEX (PRIMARY)"
        f" ON {match} SET {changes}"
    )
    return Statement(sql, (_json(rows),))


def _update_named(table: Table, change: KeyedChange, *, rows: Sequence[Values]) -> Iterator[Statement]:
    """Rows with a tenant, a name and numbers as their key; those that agree in all but the name change together.

    Text in a table of JSON costs the server more than comparing each row with half of a hundred names."""
    tenant, name, *others = change.keys
    groups: dict[Values, list[Values]] = {}
    for row in rows:
        groups.setdefault((row[0], *row[2 : len(change.keys)]), []).append(row)
    for (tenant_id, *numbers), its in groups.items():
        where = "".join(f" AND {other}={number:d}" for other, number in zip(others, numbers, strict=True))
        for first in range(0, len(its), NAMES_AT_ONCE):
            part = its[first : first + NAMES_AT_ONCE]
            names = [row[1] for row in part]
            new = zip((*change.columns, *change.added), list(zip(*part, strict=True))[len(change.keys) :], strict=True)
            chosen = [(column, _choose(name, values), column in change.added) for column, values in new]
            changes = ",".join(f"{column}={f'{column}+' if adds else ''}{value}" for column, value, adds in chosen)
            texts = [one for _, value, _ in chosen if "%s" in value for one in names]
            marks = ",".join(["%s"] * len(part))
            sql = f"UPDATE {table.name} SET {changes} WHERE {tenant}=%s{where} AND {name} IN ({marks})"
            yield Statement(sql, (*texts, tenant_id, *names))


def _choose(name: str, values: Sequence[int]) -> str:
    """One value for all, or one for each name."""
    if values.count(values[0]) == len(values):
        return f"{values[0]:d}"
    return f"CASE {name} {' '.join([f'WHEN %s THEN {value:d}' for value in values])} END"


def deletion(table: Table, columns: Sequence[str], *, rows: Sequence[Values]) -> Statement:
    # DELETE … IN scans a short table, whatever index it is told to use, and waits for all that others have locked.
    shape = ",".join(f"{name} BIGINT PATH '$[{place}]'" for place, name in enumerate(columns))
    match = " AND ".join(f"t.{name}=j.{name}" for name in columns)
    sql = (
        f"DELETE t FROM JSON_TABLE(%s, '$[*]' COLUMNS ({shape})) j"
        f" STRAIGHT_JOIN {table.name} t FORCE INDEX (PRIMARY) ON {match}"
    )
    return Statement(sql, (_json(rows),))


def in_ids(ids: Sequence[int]) -> str:
    return f"id IN ({join(ids)})"


def join(ids: Sequence[int]) -> str:
    return ",".join([f"{number:d}" for number in ids])


def read(connection: Connection, sql: str) -> Sequence[Sequence[Any]]:
    async def fetch(driver: Any) -> Sequence[Sequence[Any]]:
        cursor = driver.cursor()
        await cursor.execute(sql)
        rows: Sequence[Sequence[Any]] = await cursor.fetchall()
        return rows

    announce(connection, sql)
    return talk(connection, fetch(driver_of(connection)), sql=sql)


def write(connection: Connection, statements: Sequence[Statement]) -> int:
    """Run statements, each in a message of its own, and say how many rows they met together."""
    return sum(_write_one(connection, statement) for statement in statements)


def _write_one(connection: Connection, statement: Statement) -> int:
    driver = driver_of(connection)
    announce_one(connection, statement)
    # Not on a cursor: that would ask for the text of each warning, and MySQL has one about VALUES().
    met: int = talk(connection, driver.query(fill(driver, statement)), sql=statement.sql)
    return met


def write_rows(connection: Connection, insert: Insert, *, rows: Sequence[Values]) -> None:
    """Insert rows in statements that fit into a packet."""
    driver = driver_of(connection)
    announce(connection, insert.sql, parameters=rows, is_many=True)
    for text in fill_rows(driver, insert, rows=rows):
        talk(connection, driver.query(text), sql=insert.sql)


def announce_one(connection: Connection, statement: Statement) -> None:
    announce(connection, statement.sql, parameters=statement.texts)


def fill(driver: Any, statement: Statement) -> str:
    """What the driver would send."""
    if not statement.texts:
        return statement.sql
    filled: str = driver.cursor().mogrify(statement.sql, statement.texts)
    return filled


def fill_rows(driver: Any, insert: Insert, *, rows: Sequence[Values]) -> Iterator[str]:
    """Statements that insert the rows, each of which fits into a packet, if a single row does."""
    for first in range(0, len(rows), MOST_ROWS):
        waiting: list[str] = []
        length = 0
        for text in _spell_rows(driver, rows[first : first + MOST_ROWS]):
            if waiting and length + len(text) > MOST_CHARACTERS:
                yield f"{insert.head}{','.join(waiting)}{insert.tail}"
                waiting, length = [], 0
            waiting.append(text)
            length += len(text) + 1
        yield f"{insert.head}{','.join(waiting)}{insert.tail}"


def _spell_rows(driver: Any, rows: Sequence[Values]) -> list[str]:
    """By column, which is all numbers or all of one value more often than not: row by row takes three times as long."""
    columns = [_spell_column(driver, values) for values in zip(*rows, strict=True)]
    return [f"({','.join(row)})" for row in zip(*columns, strict=True)]


def _spell_column(driver: Any, values: Values) -> Sequence[str]:
    first = values[0]
    if values.count(first) == len(values):
        return [driver.literal(first)] * len(values)
    if set(map(type, values)) == {int}:
        return list(map(str, values))
    return list(map(driver.literal, values))


def _update(table: Table, columns: Sequence[str], *, values: Sequence[int], where: str) -> Statement:
    changes = ",".join(f"{name}={value:d}" for name, value in zip(columns, values, strict=True))
    return Statement(f"UPDATE {table.name} SET {changes} WHERE {where}")


def _json(rows: Sequence[Values]) -> str:
    return msgspec.json.encode(rows).decode()
