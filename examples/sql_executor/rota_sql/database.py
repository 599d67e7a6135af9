"""What a database has to do, and what its trouble means for the task."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rota.domain.checks import MAX_RESULT_BYTES

CONNECT_WITHIN = 5.0  # seconds, also for what must be waited for when an attempt is stopped
MOST_AT_ONCE = 10  # statements of one worker in one database


@dataclass(frozen=True, slots=True)
class Order:
    """A statement to be run once."""

    sql: str
    values: Sequence[Any]
    max_rows: int
    within: float  # seconds that are left


class SqlError(Exception):
    """It was not run, or undone. `is_retryable`: another attempt may end differently."""

    def __init__(self, code: str, problem: str, *, is_retryable: bool) -> None:
        super().__init__(problem)
        self.code = code
        self.is_retryable = is_retryable


class OutOfTimeError(Exception):
    """The database itself stopped it at its deadline."""


class Database(Protocol):
    async def open(self) -> None:
        """Get ready, without needing the server: it may come later than this worker."""
        ...

    async def run(self, order: Order) -> str:
        """Run it in a transaction of its own; the result as JSON text. Raises `SqlError` or `OutOfTimeError`.

        When the call is cancelled, the statement is stopped and undone, and only then the call ends.
        """
        ...

    async def close(self) -> None: ...


def write_rows(rows: Iterable[Sequence[Any]], columns: Sequence[str], *, most: int) -> str:
    """The result of a statement with rows, of which there may be one more than is wanted: then it says so."""
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    return _write({"rows": found[:most], "has_more": len(found) > most})


def write_count(changed: int) -> str:
    """The result of a statement without rows."""
    return _write({"changed": changed})


def _write(result: object) -> str:
    """Called before the commit, so that what cannot be told is not done either."""
    try:
        text = json.dumps(result, allow_nan=False, default=str)
    except ValueError as exc:
        raise SqlError("bad_result", f"the rows are no JSON: {exc}", is_retryable=False) from exc
    if len(text) > MAX_RESULT_BYTES:
        problem = f"the rows are {len(text)} bytes, at most {MAX_RESULT_BYTES} are kept; set max_rows, or name columns"
        raise SqlError("result_too_large", problem, is_retryable=False)
    return text
