"""What a task config says about a call: address, service, method, streaming, metadata, tls, request.

Checked when the config is put, and again when a worker reads it: a store may hold what an older release let pass.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rota.domain.checks import check_name, check_text
from rota.domain.errors import InvalidError
from rota.domain.spelling import hint
from rota.infrastructure.executors.templates import Template, compile_template

OWN_SERVICE = "rota.executor.v1.Executor"
OWN_METHOD, OWN_STREAM = "Execute", "ExecuteStream"
KEYS = frozenset({"type", "address", "service", "method", "streaming", "metadata", "tls", "request", "declared"})
MAX_ADDRESS = 300  # characters
MAX_SYMBOL = 200
MAX_ENTRIES = 32  # of metadata
MAX_VALUE = 1000  # characters of one entry
SECRET = "x-rota-secret"  # noqa: S105 a name: whoever may read configs would read the secret there
FREE_PREFIX = "x-"  # metadata that any config may send; other names are in the setting grpc.metadata
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/?#@\[\]]+):(?P<port>[0-9]{1,5})")
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_KEY = re.compile(r"[a-z0-9_.-]{1,100}")
_VALUE = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcCall:
    """Which method to call, where, and with what."""

    host: str
    port: int
    service: str = OWN_SERVICE
    method: str = OWN_METHOD
    metadata: tuple[tuple[str, str], ...] = ()
    tls: str | None = None  # a target of the settings; None: in the clear
    request: Template | None = field(default=None, compare=False)  # makes it of the task; None: it is the payload

    @property
    def is_own(self) -> bool:
        """Whether the service speaks Rota's own protocol."""
        return self.service == OWN_SERVICE

    @property
    def is_stream(self) -> bool:
        return self.is_own and self.method == OWN_STREAM

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.method}"


def check_config(given: Mapping[str, Any]) -> None:
    """Refuse what could never be called, with the field that is wrong."""
    read_call(given)


@lru_cache(maxsize=1024)  # configs are few, and each is read for every attempt
def parse_call(text: str) -> GrpcCall:
    """The call of a stored config."""
    return read_call(json.loads(text))


def read_call(given: Mapping[str, Any]) -> GrpcCall:
    if unknown := sorted(set(given) - KEYS):
        raise InvalidError(f"executor.{unknown[0]}", f"is not known; {hint(unknown[0], sorted(KEYS))}")
    host, port = _read_address(given.get("address"))
    service, method = _read_method(given)
    request = given.get("request")
    if request is not None and service == OWN_SERVICE:
        raise InvalidError("executor.request", f"is for services of your own; {OWN_SERVICE} gets the whole task")
    tls = given.get("tls")
    return GrpcCall(
        host=host,
        port=port,
        service=service,
        method=method,
        metadata=_read_metadata(given.get("metadata", {})),
        tls=None if tls is None else check_name("executor.tls", tls, longest=63),
        request=None if request is None else compile_template("executor.request", request),
    )


def _read_address(raw: object) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(raw) if isinstance(raw, str) and len(raw) <= MAX_ADDRESS else None
    port = int(found["port"]) if found else 0
    if found is None or not 0 < port < 65536:
        raise InvalidError("executor.address", "must be host:port, such as images.internal:50051 or [::1]:50051")
    return found["host"], port


def _read_method(given: Mapping[str, Any]) -> tuple[str, str]:
    service = _symbol("executor.service", given.get("service", OWN_SERVICE))
    is_stream = given.get("streaming", False)
    if not isinstance(is_stream, bool):
        raise InvalidError("executor.streaming", "must be true or false")
    if service == OWN_SERVICE:
        usual = OWN_STREAM if is_stream else OWN_METHOD
        if given.get("method", usual) != usual:
            raise InvalidError("executor.method", f"{OWN_SERVICE} is called by {usual}; leave it out")
        return service, usual
    if is_stream:
        raise InvalidError("executor.streaming", f"is for {OWN_SERVICE}; others are called by unary methods")
    if "method" not in given:
        raise InvalidError("executor.method", "is missing: name the unary method of the service to call")
    method = _symbol("executor.method", given["method"])
    if "." in method:
        raise InvalidError("executor.method", "is the bare name of a method; the package belongs to executor.service")
    return service, method


def _symbol(field: str, raw: object) -> str:
    text = check_text(field, raw, longest=MAX_SYMBOL)
    if not _SYMBOL.fullmatch(text):
        raise InvalidError(field, f"{text[:80]!r} is no name of protobuf, such as shop.v1.Orders")
    return text


def _read_metadata(raw: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(raw, Mapping) or len(raw) > MAX_ENTRIES:
        raise InvalidError("executor.metadata", f"must be text by name, at most {MAX_ENTRIES} of them")
    if SECRET in raw:
        problem = (
            "is a secret: put it into secret_metadata of a target in the setting grpc.targets, and name that as tls"
        )
        raise InvalidError(f"executor.metadata.{SECRET}", problem)
    return tuple(read_entry("executor.metadata", key, value=value) for key, value in raw.items())


def read_entry(field: str, key: str, *, value: object) -> tuple[str, str]:
    """One entry of metadata that a call may bring. What is wrong is told without the value."""
    field = f"{field}.{key[:100]}"
    if not _KEY.fullmatch(key) or key.startswith(("grpc-", "rota-")) or key.endswith("-bin"):
        raise InvalidError(field, "is no name for metadata: lower case, not grpc-…, rota-… or …-bin")
    text = check_text(field, value, longest=MAX_VALUE)
    if not _VALUE.fullmatch(text):
        raise InvalidError(field, "must be printable ASCII")
    return key, text
