"""Text found letter for letter: one answer on every database, whatever its locale, its LIKE and its wildcards."""

from typing import Any

from sqlalchemy import ColumnElement, Integer, and_, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


def contains(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Whether the text stands in the column, letter for letter."""
    return _Place(column, literal(text)) > 0


def equals(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Whether the column is the text: to MySQL and MariaDB it also is if one of them ends in more spaces."""
    return and_(column == text, _Length(column) == len(text))


class _Place(FunctionElement[int]):
    """Where the second text begins in the first; 0 when it does not."""

    type = Integer()
    inherit_cache = True


@compiles(_Place)
def _instr(element: _Place, compiler: SQLCompiler, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)})"


@compiles(_Place, "postgresql")
def _strpos(element: _Place, compiler: SQLCompiler, **options: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **options)})"


class _Length(FunctionElement[int]):
    """How many characters it has."""

    type = Integer()
    inherit_cache = True


@compiles(_Length)
def _char_length(element: _Length, compiler: SQLCompiler, **options: Any) -> str:
    return f"char_length({compiler.process(element.clauses, **options)})"


@compiles(_Length, "sqlite")
def _length(element: _Length, compiler: SQLCompiler, **options: Any) -> str:
    return f"length({compiler.process(element.clauses, **options)})"
