"""What both shells need to know of httpx2."""

import ssl
from typing import TypeVar

import httpx2

from rota.client.call import Call
from rota.client.place import Place
from rota.domain.errors import UnavailableError

T = TypeVar("T")

LARGEST_ANSWER = 64 * 1024**2  # a page of a thousand tasks with large payloads fits, an endless answer does not
_BEFORE_SENDING = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


def trust_of(place: Place) -> ssl.SSLContext:
    """Whom to believe that it is the server: the authorities that the machine knows, read only where TLS is spoken."""
    return httpx2.create_ssl_context() if place.url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def request_of(http: httpx2.AsyncClient | httpx2.Client, call: Call[T], *, seconds: float) -> httpx2.Request:
    """The call as httpx2 sends it."""
    headers = dict(call.headers)
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    timeout = httpx2.Timeout(seconds)
    return http.build_request(
        call.method, call.path, params=list(call.query) or None, content=call.body, headers=headers, timeout=timeout
    )


def never_sent(error: Exception) -> bool:
    """Whether the server certainly saw nothing of the request."""
    return isinstance(error, _BEFORE_SENDING)


def check_size(body: bytearray) -> None:
    """An answer has an end."""
    if len(body) > LARGEST_ANSWER:
        raise UnavailableError(f"the answer has more than {LARGEST_ANSWER} bytes; ask for smaller pages")
