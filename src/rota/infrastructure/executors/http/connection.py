"""A connection of aiohttp that takes one answer to each request, and no more than it must hold.

aiohttp makes a message of everything that one read gave, up to 256 KiB, before any of it is looked at. A server that
sends nothing but interim answers (1xx), or answers that nobody asked for, would have ten thousand of them kept at a
time. Here a read is parsed in small parts until the answer has come. Interim answers are counted and dropped. What
comes after the answer ends the connection, which must not carry another request: its answer would be the wrong one.
"""

from typing import Any

from aiohttp.client_proto import ResponseHandler

from rota.infrastructure.executors.http.trouble import ExchangeError

PART = 8192  # bytes that are parsed at once, before the answer has come
MOST_INTERIM = 1000  # answers; one in ten seconds is more than two hours and a half
SWITCHING = 101  # not interim: it is the answer


class OneAnswer(ResponseHandler):
    """Made by the connector for each connection."""

    _has_answer = True  # nothing has been asked yet
    _interim = 0

    def set_response_params(self, **given: Any) -> None:
        """Called with each request, before it is sent."""
        self._has_answer, self._interim = False, 0
        super().set_response_params(**given)

    def data_received(self, data: bytes) -> None:
        while len(data) > PART and not self._is_within_body():
            super().data_received(data[:PART])
            data = data[PART:]
            if not self.is_connected():
                return
        super().data_received(data)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """A message whose headers are complete."""
        status = data[0].code
        if self._has_answer:
            self._hang_up()
        elif not 100 <= status < 200 or status == SWITCHING:
            self._has_answer = True
            super().feed_data(data, size)
        else:
            self._count_interim()

    def _count_interim(self) -> None:
        self._interim += 1
        if self._interim > MOST_INTERIM and self.exception() is None:
            problem = f"the service sent more than {MOST_INTERIM} interim answers (1xx), and no other"
            self.set_exception(ExchangeError("bad_response", problem, is_answered=True))
            self._hang_up()

    def _is_within_body(self) -> bool:
        return self._has_answer and self._payload is not None and not self._payload.is_eof()

    def _hang_up(self) -> None:
        if self.transport is not None:
            self.transport.abort()  # closing in order would have TLS read on until the server agrees
