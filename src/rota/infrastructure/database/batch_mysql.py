"""A batch for MySQL and MariaDB: small statements wait for each other and go as one message.

The server runs them one after the other, stops at the first that fails, and answers each: a fence is judged by the
answers to its own statements. Where a message is a round trip, the three inserts of a new task, or the five statements
of its end, take the time of one. Large ones go by themselves: they would not fit, and gain nothing.

A new task is committed in the message that inserts it (ADR-0017): if an insert fails, the server does not come to the
COMMIT. A fence that is missed is no failure to the server, so a transaction that has one is committed by itself. Where
it is that of one row, though, and each statement behind it inserts one row, these are tied to it: each inserts only if
the statement before it met a row. Then a fence that is missed leaves nothing to commit (ADR-0047).

The driver lets every connection send several statements at once. Whatever text is in them, it has escaped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table

from rota.infrastructure.database.batch import FenceMissedError, Groups, KeyedChange, RowCopy, Values, copy_rows
from rota.infrastructure.database.bulk import rows_of, size_of, without_defaults
from rota.infrastructure.database.bulk_mysql_statements import (
    ALIKE,
    MET_BY_CHANGE,
    MOST_CHARACTERS,
    WIDE,
    Insert,
    Statement,
    adding,
    announce_one,
    fenced_deletions,
    fenced_updates,
    fill,
    fill_rows,
    insert_into,
    insertions,
    keeping,
    moving,
    replacing,
    tie,
    updates,
    write,
)
from rota.infrastructure.database.direct import announce, driver_of, talk

LONE_FENCE = [(range(1), 1)]  # the first statement must meet one row, and there is no other fence


@dataclass(slots=True)
class MysqlBatch:
    """Statements that wait to be sent. Send them before anything else is asked on the connection."""

    connection: Connection
    _texts: list[str] = field(default_factory=list)
    _shown: list[str] = field(default_factory=list)  # the same without values
    _fences: list[tuple[range, int]] = field(default_factory=list)  # which of them must meet how many rows
    _tied: list[str | None] = field(default_factory=list)  # how each reads if it depends on the one before, if it can
    _length: int = 0
    _is_begun: bool = False  # whether a part was sent before

    def insert(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        names, values = without_defaults(table, columns=columns, rows=rows)
        self._add_rows(insert_into(table, names), rows=values)

    def insert_alike(self, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        if len(groups) * ALIKE <= size_of(groups):
            key, *others = columns
            names, values = without_defaults(table, columns=others, rows=list(groups))
            if len(names) >= WIDE:
                shared = dict(zip(values, groups.values(), strict=True))
                self._add(insertions(table, [key, *names], groups=shared))
                return
        self.insert(table, columns=columns, rows=rows_of(groups))

    def insert_copies(self, table: Table, copy: RowCopy, *, ids: Sequence[int]) -> None:
        self._add([Statement(copy_rows(table, copy, ids=ids))])

    def insert_missing(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self._add_rows(keeping(table, columns), rows=rows)

    def upsert(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self._add_rows(replacing(table, columns), rows=rows)

    def add_counts(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        self._add_rows(adding(table, columns), rows=rows)

    def update(self, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        self._add(updates(table, columns, groups=groups))

    def update_fenced(self, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        self._add(fenced_updates(table, columns, groups=groups), must_meet=size_of(groups))

    def update_keyed(self, table: Table, change: KeyedChange, *, rows: Sequence[Values]) -> None:
        insert, left = moving(table, change, rows=rows)
        self._add_rows(insert, rows=left, met_by_each=MET_BY_CHANGE)

    def delete_fenced(self, table: Table, *, groups: Groups) -> None:
        self._add(fenced_deletions(table, groups=groups), must_meet=size_of(groups))

    def send(self, *, commits: bool = False) -> None:
        """Run what waits and judge its fences; and commit it at once, where a fence that is missed leaves nothing."""
        if not self._texts:
            return
        texts, shown, fences, tied = self._texts, self._shown, self._fences, self._tied[1:]
        self._texts, self._shown, self._fences, self._tied, self._length = [], [], [], [], 0
        if commits and fences == LONE_FENCE and None not in tied and not self._is_begun:
            asking, texts = _ask_and_commit, [texts[0], *filter(None, tied)]
        else:
            asking = _ask_and_commit if commits and not fences else _ask
        self._is_begun = True
        met = talk(self.connection, asking(driver_of(self.connection), texts), sql="; ".join(shown))
        for places, wanted in fences:
            if sum(met[place] for place in places) != wanted:
                raise FenceMissedError

    def _add_rows(self, insert: Insert, *, rows: Sequence[Values], met_by_each: int | None = None) -> None:
        announce(self.connection, insert.sql, parameters=rows, is_many=True)
        for text, number in fill_rows(driver_of(self.connection), insert, rows=rows):
            self._make_room(len(text))
            if met_by_each is not None:
                self._fences.append((range(len(self._texts), len(self._texts) + 1), number * met_by_each))
            self._append(text, shown=insert.sql, tied=tie(insert, text) if len(rows) == 1 else None)

    def _add(self, statements: Sequence[Statement], *, must_meet: int | None = None) -> None:
        driver = driver_of(self.connection)
        texts = [fill(driver, statement) for statement in statements]
        if not self._make_room(sum(map(len, texts))):
            self._is_begun = True
            if must_meet not in (None, write(self.connection, statements)):
                raise FenceMissedError
            return
        if must_meet is not None:
            self._fences.append((range(len(self._texts), len(self._texts) + len(texts)), must_meet))
        for text, statement in zip(texts, statements, strict=True):
            announce_one(self.connection, statement)
            self._append(text, shown=statement.sql)

    def _append(self, text: str, *, shown: str, tied: str | None = None) -> None:
        self._texts.append(text)
        self._shown.append(shown)
        self._tied.append(tied)
        self._length += len(text)

    def _make_room(self, length: int) -> bool:
        """Whether that many characters fit into a message; what waits is sent if they do not fit beside it."""
        if self._length + length > MOST_CHARACTERS:
            self.send()
        return length <= MOST_CHARACTERS


async def _ask(driver: Any, texts: Sequence[str]) -> list[int]:
    """Send statements at once and say how many rows each met."""
    met = [await driver.query(";".join(texts))]
    for _ in texts[1:]:
        met.append(await driver.next_result())
    return met


async def _ask_and_commit(driver: Any, texts: Sequence[str]) -> list[int]:
    met = await _ask(driver, [*texts, "COMMIT"])
    driver.is_committed = True  # or a second COMMIT would follow
    return met
