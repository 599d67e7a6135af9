"""What a worker and its child processes say to each other: msgpack behind a length of four bytes. Never pickle.

    worker                     child
      │── Hello ────────────────►│  sys.path, the app, limits
      │◄─────── Ready | Broken ──│
      │── Run ──────────────────►│  one attempt at a time
      │◄─────── Line, Progress ──│  while it runs
      │── Stop ─────────────────►│  only while it runs; then SIGTERM. A child that was told so gets no other job
      │◄──────────────── Ended ──│

Closing the socket ends the child.
"""

import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import TypeVar

import msgspec

from rota.domain.attempt import Cancelled, Deferred, Failed, Outcome, Snoozed, Succeeded, TaskError, TaskResult
from rota.sdk.context import Facts

MAX_FRAME = 4 * 1024 * 1024  # bytes; a payload, a result or a line with its detail is far smaller
_LENGTH = struct.Struct(">I")


class Hello(msgspec.Struct, tag="hello", frozen=True):
    path: list[str]  # the worker's sys.path: both find the same modules
    app: str | None
    memory_limit: int | None
    parent: int  # process id; another parent means that the worker has died meanwhile


class Run(msgspec.Struct, tag="run", frozen=True):
    function: str  # module:function
    payload: str
    facts: Facts


class Stop(msgspec.Struct, tag="stop", frozen=True):
    pass


class Ready(msgspec.Struct, tag="ready", frozen=True):
    pass


class Broken(msgspec.Struct, tag="broken", frozen=True):
    """The app cannot be loaded."""

    message: str
    detail: str


class Line(msgspec.Struct, tag="line", frozen=True):
    level: str
    message: str
    detail: str


class Progress(msgspec.Struct, tag="progress", frozen=True):
    fraction: float
    message: str


class Ended(msgspec.Struct, tag="ended", frozen=True, omit_defaults=True):
    """An outcome: exactly one of result, error, delay and is_deferred; none of them when the attempt was stopped."""

    result: TaskResult | None = None
    error: TaskError | None = None
    retry_after: timedelta | None = None
    delay: timedelta | None = None
    is_deferred: bool = False
    is_worn: bool = False  # this process is not fit for another job

    def outcome(self) -> Outcome:
        if self.error is not None:
            return Failed(self.error, self.retry_after)
        if self.delay is not None:
            return Snoozed(self.delay)
        if self.is_deferred:
            return Deferred()
        return Cancelled("the attempt was stopped") if self.result is None else Succeeded(self.result)


def ended_by(outcome: Outcome, *, is_worn: bool = False) -> Ended:
    match outcome:
        case Succeeded(result):
            return Ended(result=result, is_worn=is_worn)
        case Failed(error, retry_after):
            return Ended(error=error, retry_after=retry_after, is_worn=is_worn)
        case Snoozed(delay):
            return Ended(delay=delay, is_worn=is_worn)
        case Deferred():
            return Ended(is_deferred=True, is_worn=is_worn)
        case _:
            return Ended(is_worn=True)


ToChild = Hello | Run | Stop
ToWorker = Ready | Broken | Line | Progress | Ended
M = TypeVar("M")
FOR_CHILD = msgspec.msgpack.Decoder(ToChild)
FOR_WORKER = msgspec.msgpack.Decoder(ToWorker)
_ENCODER = msgspec.msgpack.Encoder()


def encode(message: ToChild | ToWorker) -> bytes:
    body = _ENCODER.encode(message)
    return _LENGTH.pack(len(body)) + body


class FrameError(Exception):
    """What came is no frame: user code wrote to our socket, or the process is out of its mind."""


class FrameBuffer:
    """Bytes in, messages out."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes, decoder: msgspec.msgpack.Decoder[M]) -> Iterator[M]:
        """The messages that are whole now. Raises `FrameError`."""
        self._bytes += data
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > MAX_FRAME:
                raise FrameError(f"a frame of {length} bytes")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[_LENGTH.size : end])
            del self._bytes[:end]
            try:
                message = decoder.decode(body)
            except msgspec.DecodeError as exc:
                raise FrameError(str(exc)) from exc
            yield message
