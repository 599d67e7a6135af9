"""The text of bulk statements for MySQL and MariaDB, and how it is sent."""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import BigInteger, Connection, Table

from rota.infrastructure.database.batch import Groups, KeyedChange, Values
from rota.infrastructure.database.bulk import rows_of
from rota.infrastructure.database.direct import announce, driver_of, talk

MOST_CHARACTERS = 200_000  # of up to four bytes: less than the smallest limit of a packet in use, 1 MiB
MOST_ROWS = 1000  # that are spelt in one go: the loop does nothing else meanwhile
MET_BY_CHANGE = 2  # what an INSERT counts for a row that it finds there and changes
ALIKE = 16  # rows that must have all but their ids in common, on average, to be made of a list of ids …
WIDE = 6  # … and so many columns beside it that are not their default: fewer are read faster in each row
FEW_GROUPS = 16  # up to here one UPDATE … IN per group is cheaper than one joined to a JSON table


class Insert(NamedTuple):
    """An INSERT of any number of rows."""

    head: str
    row: str
    tail: str = ""
    filler: Values = ()  # what ends every row, for columns that a row must have

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


def keeping(table: Table, columns: Sequence[str]) -> Insert:
    """Rows that are there stay as they are. Not INSERT IGNORE: that would also turn a text that is too long into a
    shorter one."""
    key = next(iter(table.primary_key.columns)).name
    return insert_into(table, columns, tail=f" ON DUPLICATE KEY UPDATE {key}={key}")


def replacing(table: Table, columns: Sequence[str]) -> Insert:
    changes = ",".join(f"{name}=VALUES({name})" for name in columns)
    return insert_into(table, columns, tail=f" ON DUPLICATE KEY UPDATE {changes}")


def adding(table: Table, columns: Sequence[str]) -> Insert:
    change = f"{columns[-1]}={columns[-1]}+VALUES({columns[-1]})"
    return insert_into(table, columns, tail=f" ON DUPLICATE KEY UPDATE {change}")


def updates(table: Table, columns: Sequence[str], *, groups: Groups) -> list[Statement]:
    """Set columns by id."""
    if len(groups) > FEW_GROUPS:
        return [_update_joined(table, KeyedChange(("id",), tuple(columns)), rows=rows_of(groups))]
    return [_update(table, columns, values=values, where=in_ids(ids)) for values, ids in groups.items()]


def fenced_updates(table: Table, columns: Sequence[str], *, groups: Groups) -> list[Statement]:
    """Set columns by id and version."""
    if len(groups) > FEW_GROUPS:
        return [_update_joined(table, KeyedChange(("id", "version"), tuple(columns)), rows=rows_of(groups))]
    return [
        _update(table, columns, values=values, where=f"{in_ids(ids)} AND version={version:d}")
        for (version, *values), ids in groups.items()
    ]


def _update_joined(table: Table, change: KeyedChange, *, rows: Sequence[Values]) -> Statement:
    """Keys that are numbers: joined to a table of JSON, each found by the primary key. What all rows share is said
    once, not in each of them."""
    names = (*change.keys, *change.columns)
    values = list(zip(*rows, strict=True))
    shared = _find_shared(values, keys=[name in table.primary_key.columns for name in names])
    kept = [place for place in range(len(names)) if place not in shared]
    shape = ",".join(f"c{place} BIGINT PATH '$[{number}]'" for number, place in enumerate(kept))
    told = [f"t.{name}={shared.get(place) or f'j.c{place}'}" for place, name in enumerate(names)]
    match, changes = " AND ".join(told[: len(change.keys)]), ",".join(told[len(change.keys) :])
    sql = (
        f"UPDATE JSON_TABLE(%s, '$[*]' COLUMNS ({shape})) j STRAIGHT_JOIN {table.name} t FORCE INDEX (PRIMARY)"
        f" ON {match} SET {changes}"
    )
    return Statement(sql, (_json(list(zip(*(values[place] for place in kept), strict=True))),))


def tie(insert: Insert, text: str) -> str | None:
    """The text of an INSERT of one row that is to insert it only if the statement right before met a row."""
    if insert.tail:
        return None
    values = text[len(insert.head) + 1 : -1]  # without the parentheses
    return f"{insert.head.removesuffix('VALUES ')}SELECT {values} FROM DUAL WHERE ROW_COUNT()=1"


def moving(table: Table, change: KeyedChange, *, rows: Sequence[Values]) -> tuple[Insert, Sequence[Values]]:
    """Change rows by their primary key while others of their columns are as they were seen. And what is left of each
    row, for what all of them share is said once.

    An INSERT that finds every row there and changes it: it counts two for each row that it changed, one for each that
    it had to insert, one or none for each that it left as it was. So only if all were there as they were seen, and now
    differ, is the count twice the number of rows; else what it did is undone. It takes half of what a CASE of the same
    names in an UPDATE does, and a third of a join."""
    given = (*change.keys, *change.columns, *change.added)
    values = list(zip(*rows, strict=True))
    shared = _find_shared(values, keys=[name in table.primary_key.columns for name in given])
    kept = [place for place in range(len(given)) if place not in shared]
    columns = _columns_of(table, change)
    told = [shared.get(place) or f"VALUES({columns[place]})" for place in range(len(given))]
    seen = {name: told[place] for place, name in enumerate(change.keys) if name not in table.primary_key.columns}
    is_seen = " AND ".join(f"{name}={value}" for name, value in seen.items())
    new = dict(zip(given[len(change.keys) :], told[len(change.keys) :], strict=True))
    new |= {name: f"{name}+{new[name]}" for name in change.added}
    # The deciding columns come last: an assignment sees what those before it have done.
    in_order = sorted(new, key=lambda name: name in seen)
    changes = ",".join(f"{name}=IF({is_seen},{new[name]},{name})" for name in in_order)
    needed = [c.name for c in table.columns if not c.nullable and c.server_default is None and c.name not in given]
    sent = [columns[place] for place in kept]
    insert = insert_into(table, (*sent, *needed), tail=f" ON DUPLICATE KEY UPDATE {changes}")
    return insert._replace(filler=("",) * len(needed)), list(map(itemgetter(*kept), rows))


def _find_shared(columns: Sequence[Values], *, keys: Sequence[bool]) -> dict[int, str]:
    """By place, the numbers that are the same in all rows; but for the keys by which the rows are found."""
    return {
        place: f"{values[0]:d}"
        for place, values in enumerate(columns)
        if not keys[place] and isinstance(values[0], int) and values.count(values[0]) == len(values)
    }


def _columns_of(table: Table, change: KeyedChange) -> list[str]:
    """By place, in which column of the INSERT a value comes: its own; or, for what a column that changes was seen as,
    one that is not in use here, since its own is for what it becomes."""
    given = (*change.keys, *change.columns, *change.added)
    spare = (one.name for one in table.columns if isinstance(one.type, BigInteger) and one.name not in given)
    return [next(spare) if name in change.columns else name for name in change.keys] + list(given[len(change.keys) :])


def deletion(table: Table, columns: Sequence[str], *, rows: Sequence[Values]) -> Statement:
    # DELETE … IN scans a short table, whatever index it is told to use, and waits for all that others have locked.
    shape = ",".join(f"{name} BIGINT PATH '$[{place}]'" for place, name in enumerate(columns))
    match = " AND ".join(f"t.{name}=j.{name}" for name in columns)
    sql = (
        f"DELETE t FROM JSON_TABLE(%s, '$[*]' COLUMNS ({shape})) j"
        f" STRAIGHT_JOIN {table.name} t FORCE INDEX (PRIMARY) ON {match}"
    )
    return Statement(sql, (_json(rows),))


def fenced_deletions(table: Table, *, groups: Groups) -> list[Statement]:
    """Delete by id and version."""
    if len(groups) > FEW_GROUPS:
        return [deletion(table, ("id", "version"), rows=rows_of(groups))]
    join_live = f"STRAIGHT_JOIN {table.name} t FORCE INDEX (PRIMARY) ON t.id=j.id"
    return [
        Statement(f"DELETE t FROM {_ids_as_table(ids)} j {join_live} AND t.version={version:d}")
        for (version,), ids in groups.items()
    ]


def insertions(table: Table, columns: Sequence[str], *, groups: Groups) -> list[Statement]:
    """Insert rows that have all but their ids in common: the server reads the rest once, not in each row."""
    into = f"INSERT INTO {table.name} ({','.join(columns)}) SELECT j.id"
    return [
        Statement(
            f"{into}{''.join(map(_spell, values))} FROM {_ids_as_table(ids)} j",
            tuple(value for value in values if isinstance(value, str)),
        )
        for values, ids in groups.items()
    ]


def _spell(value: str | int | None) -> str:
    if value is None:
        return ",NULL"
    return ",%s" if isinstance(value, str) else f",{value:d}"


def _ids_as_table(ids: Sequence[int]) -> str:
    return f"JSON_TABLE('[{join(ids)}]', '$[*]' COLUMNS (id BIGINT PATH '$'))"


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
    for text, _ in fill_rows(driver, insert, rows=rows):
        talk(connection, driver.query(text), sql=insert.sql)


def announce_one(connection: Connection, statement: Statement) -> None:
    announce(connection, statement.sql, parameters=statement.texts)


def fill(driver: Any, statement: Statement) -> str:
    """What the driver would send."""
    if not statement.texts:
        return statement.sql
    filled: str = driver.cursor().mogrify(statement.sql, statement.texts)
    return filled


def fill_rows(driver: Any, insert: Insert, *, rows: Sequence[Values]) -> Iterator[tuple[str, int]]:
    """Statements that insert the rows, and how many each; each fits into a packet, if a single row does."""
    for first in range(0, len(rows), MOST_ROWS):
        waiting: list[str] = []
        length = 0
        for text in _spell_rows(driver, rows[first : first + MOST_ROWS], filler=insert.filler):
            if waiting and length + len(text) > MOST_CHARACTERS:
                yield f"{insert.head}{','.join(waiting)}{insert.tail}", len(waiting)
                waiting, length = [], 0
            waiting.append(text)
            length += len(text) + 1
        yield f"{insert.head}{','.join(waiting)}{insert.tail}", len(waiting)


def _spell_rows(driver: Any, rows: Sequence[Values], *, filler: Values) -> list[str]:
    """By column, which is all numbers or all of one value more often than not: row by row takes three times as long."""
    columns = [_spell_column(driver, values) for values in zip(*rows, strict=True)]
    columns += [[driver.literal(one)] * len(rows) for one in filler]
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
