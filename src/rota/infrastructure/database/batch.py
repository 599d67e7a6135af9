"""Writes of one transaction that need no answer in between, so that they may travel together."""

from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import Table

Values = tuple[Any, ...]


class FenceMissedError(Exception):
    """A row was not there as it was expected. What the batch has written must be rolled back."""


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

    def delete_fenced(self, table: Table, *, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Delete what agrees with the rows in these columns. `FenceMissedError` if one is not there."""
        ...
