"""Log lines of a task: the fields of `ctx.log`, and what it prints. All within bounds."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rota.domain.checks import MAX_DETAIL, MAX_LINE

MAX_PRINTED = 256 * 1024  # bytes of stdout and of stderr of one attempt; the rest is read and dropped
DROPPED = f"what it prints beyond {MAX_PRINTED} bytes is dropped"


def detail_of(fields: Mapping[str, Any]) -> str:
    """The fields of a log line as JSON text; what JSON cannot hold is shown as `repr` does."""
    if not fields:
        return ""
    try:
        text = msgspec.json.encode(dict(fields), enc_hook=repr).decode("utf-8")
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as exc:
        text = msgspec.json.encode({"unreadable": str(exc)}).decode("utf-8")
    if len(text) <= MAX_DETAIL:
        return text
    half = MAX_DETAIL // 2  # escaping may double it
    return msgspec.json.encode({"truncated": text[:half]}).decode("utf-8")[:MAX_DETAIL]


class PrintedLines:
    """Bytes that a process prints, cut into lines; bounded per line and per attempt."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._rest = b""
        self._left = MAX_PRINTED

    def feed(self, data: bytes) -> None:
        if self._left <= 0:
            return
        kept = data[: self._left]
        self._left -= len(data)
        *lines, self._rest = (self._rest + kept).split(b"\n")
        for line in lines:
            self._say(line)
        while len(self._rest) > MAX_LINE:
            self._say(self._rest[:MAX_LINE])
            self._rest = self._rest[MAX_LINE:]
        if self._left <= 0:
            self.flush()
            self._emit(DROPPED)

    def flush(self) -> None:
        """Say the last line, though no newline ended it."""
        rest, self._rest = self._rest, b""
        if rest:
            self._say(rest)

    def _say(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        for start in range(0, len(text), MAX_LINE):
            self._emit(text[start : start + MAX_LINE])
