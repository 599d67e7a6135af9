"""What both shells need to know of httpx2."""

import ssl
from typing import TypeVar

import httpx2

from rota.client.call import Call
from rota.client.exchange import UntrustedError, WrongProtocolError
from rota.client.place import Place
from rota.domain.errors import ConfigError, UnavailableError

T = TypeVar("T")

LARGEST_ANSWER = 64 * 1024**2  # a page of a thousand tasks with large payloads fits, an endless answer does not
NOT_HTTP_1 = "does not speak HTTP/1.1; perhaps it is api.grpc_port, and the API over HTTP is at api.port"
NOT_TLS = "does not speak TLS; perhaps its URL begins with http://"
HANGS_UP = "closes connections without an answer"
_NO_FIRST_LINES = ("illegal request line", "illegal status line")  # what h11 says where an answer should begin
_NO_ANSWER = "Server disconnected without sending a response"  # as httpcore says it
_NO_TLS_REASONS = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
)  # as releases of OpenSSL call an answer in clear text
_NO_TRUST_REASON = "CERTIFICATE_VERIFY_FAILED"
_BEFORE_SENDING = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


def trust_of(place: Place) -> ssl.SSLContext:
    """Whom to believe that it is the server: the authorities that the machine knows, read only where TLS is spoken."""
    if not place.url.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return httpx2.create_ssl_context()
    except OSError as exc:  # also what ssl says of a file in which there is none
        problem = f"what SSL_CERT_FILE or SSL_CERT_DIR names cannot be used: {exc}"
        raise ConfigError(problem, fix="unset SSL_CERT_FILE SSL_CERT_DIR") from exc


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
        raise WrongProtocolError(f"{place.url} {NOT_HTTP_1}", meant=place.before_grpc) from error
    if isinstance(error, httpx2.ConnectError) and any(reason in str(error) for reason in _NO_TLS_REASONS):
        # To another machine a token must not go in clear text.
        meant = place.url.replace("https:", "http:", 1) if place.is_local else None
        raise WrongProtocolError(f"{place.url} {NOT_TLS}", meant=meant) from error
    if isinstance(error, httpx2.ConnectError) and _NO_TRUST_REASON in str(error):
        problem = f"the certificate of {place.url} is not trusted here; SSL_CERT_FILE names a file of those that are"
        raise UntrustedError(f"{problem}: {error}") from error


def check_hang_up(error: Exception, place: Place) -> None:
    """Raises for a connection that was closed without a word, where somebody waits who would rather know.

    Servers with TLS do so with those who speak otherwise: in clear text, or HTTP/1.1 where only gRPC is spoken. So does
    a proxy whose server is away; programs, which have time, try again.
    """
    if place.connect_within is None or not str(error).startswith(_NO_ANSWER):
        return
    if place.url.startswith("https:"):
        guess, meant = "perhaps it is api.grpc_port, and the API over HTTP is at api.port", place.before_grpc
    else:
        guess, meant = "perhaps its URL begins with https://", place.url.replace("http:", "https:", 1)
    raise WrongProtocolError(f"{place.url} {HANGS_UP}; {guess}", meant=meant) from error
