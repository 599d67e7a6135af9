"""What PostgreSQL and SQLite do alike about a row whose key is there already: clauses to put behind an INSERT."""

from collections.abc import Sequence

from sqlalchemy import Table

KEEP = "ON CONFLICT DO NOTHING"


def replace_row(table: Table, columns: Sequence[str]) -> str:
    """Replace these columns."""
    return f"{_on_key(table)} {','.join(f'{name}=excluded.{name}' for name in columns)}"


def replace_changed(table: Table, columns: Sequence[str], *, by: str) -> str:
    """Replace these columns of a row that differs in the column `by`."""
    return f"{replace_row(table, columns)} WHERE {table.name}.{by}<>excluded.{by}"


def add_number(table: Table, column: str) -> str:
    """Add to this column."""
    return f"{_on_key(table)} {column}={table.name}.{column}+excluded.{column}"


def _on_key(table: Table) -> str:
    return f"ON CONFLICT ({','.join(column.name for column in table.primary_key.columns)}) DO UPDATE SET"
