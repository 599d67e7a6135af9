"""The spool in a file: one result a line, as JSON, on the disk before the call returns.

A process may be killed in the middle of a line; that line is left out when the file is read, and closed off before the
next one is written. The file may hold what tasks returned, so only its owner can read it. One worker, one file:
workers of one name have numbered files, each locked by its process, and a new process takes over one that is free.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from rota.application.work.spool import Result
from rota.domain.errors import UnavailableError
from rota.infrastructure.file_lock import try_lock

MOST_BYTES = 64 * 1024 * 1024

T = TypeVar("T")

log = structlog.get_logger(__name__)


def open_spool(folder: Path, name: str) -> "FileSpool":
    """The first spool of this name that no living process has, with what its last owner left in it."""
    number = 1
    while (lock := try_lock(folder / f"{name}.{number}.lock")) is None:
        number += 1
    return FileSpool(folder / f"{name}.{number}.spool", lock=lock)


class FileSpool:
    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES, lock: int | None = None) -> None:
        self._path = path
        self._lock = lock  # held until the process ends
        self._most_bytes = most_bytes
        self._size = 0
        self._decoder = msgspec.json.Decoder(Result)
        self._encoder = msgspec.json.Encoder()

    @property
    def has_room(self) -> bool:
        return self._size < self._most_bytes

    async def append(self, results: Sequence[Result]) -> None:
        await self._in_thread(lambda: self._append(results))

    async def read(self) -> list[Result]:
        return await self._in_thread(self._read)

    async def clear(self) -> None:
        await self._in_thread(self._clear)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """The disk may be slow, and the event loop must not wait for it."""
        try:
            return await asyncio.to_thread(work)
        except OSError as exc:
            raise UnavailableError(f"spool {self._path}: {exc}") from exc

    def _append(self, results: Sequence[Result]) -> None:
        lines = b"".join(self._encoder.encode(result) + b"\n" for result in results)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(b"\n" + lines if self._is_torn() else lines)
            file.flush()
            os.fsync(file.fileno())
            self._size = file.tell()

    def _is_torn(self) -> bool:
        with self._path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"

    def _read(self) -> list[Result]:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            content = b""
        self._size = len(content)
        results: list[Result] = []
        for line in filter(None, content.split(b"\n")):
            try:
                results.append(self._decoder.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError) as exc:
                log.warning("spool.unreadable_line", path=str(self._path), bytes=len(line), error=str(exc))
        return results

    def _clear(self) -> None:
        self._path.unlink(missing_ok=True)
        self._size = 0
