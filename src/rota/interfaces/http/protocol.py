"""Connections that do not dawdle: uvicorn waits for ever for the head of a request, which lets a few clients that send
a byte now and then hold every connection there is."""

import asyncio
from datetime import timedelta
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_TIMEOUT = timedelta(seconds=10)  # from the first byte, or the connection, to the end of the headers

_Base: Any = AutoHTTPProtocol  # httptools where it is installed, else h11


class PromptProtocol(_Base):  # type: ignore[misc]  # chosen when uvicorn is imported
    """Closes a connection whose request does not get past its headers in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:  # bytes, and no request yet
            self._expect_head()
        else:
            self._forget_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_TIMEOUT.total_seconds(), self.transport.abort)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
