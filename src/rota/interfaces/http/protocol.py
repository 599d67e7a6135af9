"""Connections that do not dawdle.

uvicorn waits for ever for the head of a request, and for a client to read its answer: a few clients that send or read a
byte now and then could hold every connection there is, and the memory of the answers.
"""

import asyncio
from datetime import timedelta
from typing import Any

import structlog
from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_TIMEOUT = timedelta(seconds=10)  # from the first byte, or the connection, to the end of the headers
READ_TIMEOUT = timedelta(seconds=30)  # in which a client must take some of what waits for it
MOST_HELD = 64 * 1024  # bytes: what is more is sent at once, so that whoever writes hears soon that nobody reads

log = structlog.get_logger(__name__)

_Base: Any = AutoHTTPProtocol  # httptools where it is installed, else h11


class GatheringTransport(asyncio.Transport):
    """Sends what is written in one turn of the loop at its end, at once: a head and its body are a single packet."""

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._inner = inner
        self._loop = loop
        self._pieces: list[bytes] = []
        self._held = 0

    def write(self, data: Any) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)
        self._held += len(data)
        if self._held > MOST_HELD:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._inner.close()

    def abort(self) -> None:
        self._take()
        self._inner.abort()

    def is_closing(self) -> bool:
        return self._inner.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._inner.get_write_buffer_size() + self._held

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    def _flush(self) -> None:
        if self._pieces:
            self._inner.writelines(self._take())

    def _take(self) -> list[bytes]:
        pieces, self._pieces, self._held = self._pieces, [], 0
        return pieces


class PromptProtocol(_Base):  # type: ignore[misc]  # chosen when uvicorn is imported
    """Closes a connection whose request does not get past its headers in time, or whose client does not read."""

    _deadline: asyncio.TimerHandle | None = None
    _read_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(GatheringTransport(transport, self.loop))
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:  # bytes, and no request yet
            self._expect_head()
        else:
            self._forget_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        self._forget_reader()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reader(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._forget_reader()
        super().resume_writing()

    def _expect_reader(self, waiting: int) -> None:
        """Look after a while how much still waits: all of what waits now means that nobody reads."""
        self._read_deadline = self.loop.call_later(READ_TIMEOUT.total_seconds(), self._look_at_reader, waiting)

    def _look_at_reader(self, waited: int) -> None:
        waiting = self.transport.get_write_buffer_size()
        if waiting < waited:
            self._expect_reader(waiting)
        else:
            log.info("api.client_stalled", address=self.client[0] if self.client else "", bytes=waiting)
            self.transport.abort()

    def _forget_reader(self) -> None:
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_TIMEOUT.total_seconds(), self.transport.abort)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
