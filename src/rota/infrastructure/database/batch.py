"""Writes of one transaction that need no answer in between, so that they may travel together."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Table

Values = tuple[Any, ...]


class FenceMissedError(Exception):
    """A row was not there as it was expected. What the batch has written must be rolled back."""


class KeyedChange(NamedTuple):
    """Which rows of a table change, and how: each row of values is (*keys, *columns, *added)."""

    keys: tuple[str, ...]  # numbers, or a tenant, a name and numbers; the first of them are the primary key
    columns: tuple[str, ...]  # are set
    added: tuple[str, ...] = ()  # are added to


class Batch(Protocol):
    """Done in the order they are called, at the end of the block at latest; that is when errors may come."""

    def insert(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert all rows; a duplicate key is an error."""
        ...

    def upsert(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert, or replace the given columns of the row with the same key."""
        ...

    def add_counts(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert, or add the last column to the row with the same key."""
        ...

    def update(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Set columns by id: each row is (id, *values)."""
        ...

    def update_fenced(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Set columns by id and version: each row is (id, version, *values). `FenceMissedError` if one is not there."""
        ...

    def update_keyed(self, table: Table, change: KeyedChange, *, rows: Sequence[Values]) -> None:
        """Change rows that have these keys. `FenceMissedError` if one is not there."""
        ...

    def delete_fenced(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Delete what agrees with the rows in these columns. `FenceMissedError` if one is not there."""
        ...
