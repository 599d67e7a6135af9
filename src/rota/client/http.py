"""What both shells need to know of httpx2."""

import ssl
from typing import TypeVar

import httpx2

from rota.client.call import Call
from rota.client.exchange import WrongProtocolError
from rota.client.place import Place
from rota.domain.errors import UnavailableError

T = TypeVar("T")

LARGEST_ANSWER = 64 * 1024**2  # a page of a thousand tasks with large payloads fits, an endless answer does not
NOT_HTTP_1 = "does not speak HTTP/1.1; perhaps it is api.grpc_port, and the API over HTTP is at api.port"
NOT_TLS = "does not speak TLS; perhaps its URL begins with http://"
_NO_FIRST_LINES = ("illegal request line", "illegal status line")  # what h11 says where an answer should begin
_NO_TLS_REASONS = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
)  # as releases of OpenSSL call an answer in clear text
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


def check_protocol(error: Exception, place: Place) -> None:
    """Raises where who listens answers, and in another language: a port for gRPC speaks HTTP/2 alone."""
    if isinstance(error, httpx2.RemoteProtocolError) and str(error).startswith(_NO_FIRST_LINES):
        raise WrongProtocolError(f"{place.url} {NOT_HTTP_1}") from error
    if isinstance(error, httpx2.ConnectError) and any(reason in str(error) for reason in _NO_TLS_REASONS):
        raise WrongProtocolError(f"{place.url} {NOT_TLS}") from error
