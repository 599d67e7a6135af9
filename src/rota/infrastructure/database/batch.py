"""Writes of one transaction that need no answer in between, so that they may travel together."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Table

Values = tuple[Any, ...]
Groups = Mapping[Values, Sequence[int]]  # the ids of rows, by what else these rows have, which is the same for all


class FenceMissedError(Exception):
    """A row was not there as it was expected. What the batch has written must be rolled back."""


class KeyedChange(NamedTuple):
    """Which rows of a table change, and how: each row of values is (*keys, *columns, *added)."""

    keys: tuple[str, ...]  # the primary key, and numbers that must be as they were seen
    columns: tuple[str, ...]  # are set: numbers, one of them to another value than it has
    added: tuple[str, ...] = ()  # are added to


class RowCopy(NamedTuple):
    """Rows of a table that say what the rows of another one do, which have just been inserted: the values of these are
    neither sent nor read a second time."""

    source: Table  # with an id
    columns: tuple[str, ...]
    values: tuple[str | int, ...]  # for each of them a column of the source, or a number


MOST_RUNS = 16  # of ids without a gap, up to which a statement names their ends rather than each


def copy_rows(table: Table, copy: RowCopy, *, ids: Sequence[int]) -> str:
    """A statement that inserts a row for each of these rows of the source, in any database's SQL."""
    values = ",".join(map(str, copy.values))
    head = f"INSERT INTO {table.name} ({','.join(copy.columns)})"
    return f"{head} SELECT {values} FROM {copy.source.name} WHERE {_are_ids(ids)}"


def _are_ids(ids: Sequence[int]) -> str:
    in_order = sorted(ids)
    ends = [place for place, number in enumerate(in_order[1:]) if number != in_order[place] + 1]
    if len(ends) >= MOST_RUNS:
        return f"id IN ({','.join([f'{number:d}' for number in in_order])})"
    runs = zip([0, *(place + 1 for place in ends)], [*ends, len(in_order) - 1], strict=True)
    return " OR ".join(f"id BETWEEN {in_order[first]:d} AND {in_order[last]:d}" for first, last in runs)


class Batch(Protocol):
    """Done in the order they are called, at the end of the block at latest; that is when errors may come."""

    def insert(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert all rows; a duplicate key is an error."""
        ...

    def insert_alike(self, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        """Insert a row (id, *values) for each id of each group; a duplicate key is an error."""
        ...

    def insert_copies(self, table: Table, copy: RowCopy, *, ids: Sequence[int]) -> None:
        """Insert a row for each of these rows of another table, which are all there; a duplicate key is an error."""
        ...

    def insert_missing(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert the rows whose key is not there yet; the others are left as they are."""
        ...

    def upsert(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert, or replace the given columns of the row with the same key."""
        ...

    def add_counts(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert, or add the last column to the row with the same key."""
        ...

    def update(self, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        """Set columns by id: a group is told by their values."""
        ...

    def update_fenced(self, table: Table, *, columns: Sequence[str], groups: Groups) -> None:
        """Set columns by id and version: a group is told by (version, *values). `FenceMissedError` if one is gone."""
        ...

    def update_keyed(self, table: Table, change: KeyedChange, *, rows: Sequence[Values]) -> None:
        """Change rows that have these keys, in the order given. `FenceMissedError` if one is not there."""
        ...

    def delete_fenced(self, table: Table, *, groups: Groups) -> None:
        """Delete by id and version: a group is told by (version,). `FenceMissedError` if one is not there."""
        ...
