"""What a task config says to the HTTP executor, checked when it is defined.

Nothing here needs the client library: an API node checks configs without it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from rota.domain.checks import check_name, check_number
from rota.domain.errors import InvalidError
from rota.infrastructure.executors.templates import Template, compile_template
from rota.wire.mistakes import explain

METHODS = ("POST", "PUT", "PATCH", "DELETE", "GET")
BODILESS = ("GET", "DELETE")
MAX_URL = 2048
MAX_HEADERS = 32
MAX_CONCURRENCY = 10_000
LONGEST_TIMEOUT = 3600.0  # seconds
STATUS_CLASSES = ("2xx", "3xx", "4xx", "5xx")
OWN_HEADERS = frozenset(
    {
        *("accept-encoding", "content-length", "content-type", "host", "idempotency-key", "traceparent"),
        *("connection", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
        *("webhook-id", "webhook-timestamp", "webhook-signature"),
    }
)
SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})
_URL = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+")  # no braces, blanks, quotes or backslashes
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


class SuccessMapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which answers are successes, and what of them is the result."""

    statuses: tuple[str | int, ...] = ("2xx",)
    data: str = ""  # a JSON pointer; empty is the whole answer
    message: str | None = None  # a JSON pointer


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part `executor` of a task config, without its type."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    query: dict[str, Any] = {}
    body: Any = msgspec.UNSET
    secret: str | None = None
    target: str | None = None
    success: SuccessMapping = SuccessMapping()
    deferred: bool = True
    connect_timeout_seconds: float = 5.0
    response_timeout_seconds: float | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A config, ready to make requests from."""

    config: HttpConfig
    origin: str  # scheme, host and port: who is called
    host: str
    port: int
    headers: Mapping[str, Template]
    query: Mapping[str, Template]
    body: Template | None


def check_config(executor: Mapping[str, object]) -> None:
    """Raise `InvalidError` with the field (`executor.url`) that is wrong."""
    _prepare(executor)


@lru_cache(maxsize=1024)
def plan_of(executor_config: str) -> Plan:
    """The plan of a stored config; `InvalidError` when it was stored unchecked and is wrong."""
    return _prepare(msgspec.json.decode(executor_config))


def _prepare(executor: object) -> Plan:
    try:
        config = msgspec.convert(executor, HttpConfig)
    except msgspec.ValidationError as exc:
        raise explain(exc, HttpConfig, within="executor") from exc
    parts = _check_url(config.url)
    _check_words(config)
    _check_numbers(config)
    _check_success(config.success)
    _check_headers(config.headers)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Plan(
        config=config,
        origin=f"{parts.scheme}://{parts.hostname}:{port}",
        host=parts.hostname or "",
        port=port,
        headers={name: compile_template(f"executor.headers.{name}", text) for name, text in config.headers.items()},
        query={name: compile_template(f"executor.query.{name}", value) for name, value in config.query.items()},
        body=None if config.body is msgspec.UNSET else compile_template("executor.body", config.body),
    )


def _check_url(url: str) -> SplitResult:
    field = "executor.url"
    if len(url) > MAX_URL or not _URL.fullmatch(url):
        problem = f"must have at most {MAX_URL} ASCII characters of a URL (xn--… for other hosts, %… for other text)"
        raise InvalidError(field, f"{problem}; values of the task go into query or body")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise InvalidError(field, f"is no URL: {exc}") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidError(field, "must begin with https:// or http:// and a host")
    if parts.username is not None or parts.password is not None:
        raise InvalidError(field, "must not carry a user or password; put them into http.targets of the settings")
    if parts.fragment:
        raise InvalidError(field, "must not have a fragment")
    return parts


def _check_words(config: HttpConfig) -> None:
    if config.method not in METHODS:
        raise InvalidError("executor.method", f"must be one of {', '.join(METHODS)}")
    if config.method == "GET" and config.body is not msgspec.UNSET:
        raise InvalidError("executor.body", "a GET has none; use query, or another method")
    for name in ("secret", "target"):
        value = getattr(config, name)
        if value is not None:
            check_name(f"executor.{name}", value, longest=63)
    if len(config.query) > MAX_HEADERS:
        raise InvalidError("executor.query", f"has {len(config.query)} keys, at most {MAX_HEADERS} are allowed")


def _check_numbers(config: HttpConfig) -> None:
    for name in ("connect_timeout_seconds", "response_timeout_seconds"):
        value = getattr(config, name)
        if value is not None and not 0.01 <= value <= LONGEST_TIMEOUT:
            raise InvalidError(f"executor.{name}", f"must be from 0.01 to {LONGEST_TIMEOUT:g} seconds")
    if config.concurrency is not None:
        check_number("executor.concurrency", config.concurrency, least=1, most=MAX_CONCURRENCY)


def _check_success(success: SuccessMapping) -> None:
    for status in success.statuses:
        if status not in STATUS_CLASSES and not (isinstance(status, int) and 200 <= status <= 599):
            problem = f"{status!r:.20} must be a status such as 201, or one of {', '.join(STATUS_CLASSES)}"
            raise InvalidError("executor.success.statuses", problem)
    for name in ("data", "message"):
        pointer = getattr(success, name)
        if pointer and (not pointer.startswith("/") or len(pointer) > 500):
            raise InvalidError(f"executor.success.{name}", "must be a JSON pointer such as /order/id")


def _check_headers(headers: Mapping[str, str]) -> None:
    if len(headers) > MAX_HEADERS:
        raise InvalidError("executor.headers", f"has {len(headers)} names, at most {MAX_HEADERS} are allowed")
    for name, value in headers.items():
        field = f"executor.headers.{name[:100]}"
        low = name.lower()
        if not _TOKEN.fullmatch(name) or low in OWN_HEADERS or low.startswith("rota-"):
            raise InvalidError(field, "is no header's name, or one that Rota sets itself")
        if low in SECRET_HEADERS:
            raise InvalidError(field, "is a secret; put it into http.targets of the settings and name the target here")
        if not is_header_value(value):
            raise InvalidError(field, "must be visible ASCII text of at most 4096 characters")


def is_header_value(text: str) -> bool:
    """Whether a text may stand in a header: no line breaks, nothing that needs an encoding."""
    return len(text) <= 4096 and text.isascii() and text.isprintable()
