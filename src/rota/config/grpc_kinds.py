"""What the settings of calls over gRPC may be."""

import json
from collections.abc import Mapping
from typing import Any

from rota.config.kinds import LONGEST_TEXT, MOST_ITEMS, Kind
from rota.domain.checks import check_name, check_text
from rota.domain.errors import InvalidError
from rota.infrastructure.executors.targets import parse_allow

TLS_KEYS = ("ca", "cert", "key", "server_name")


def strings(what: str) -> Kind[tuple[str, ...]]:
    """A list of texts; in a variable or flag separated by commas."""
    allowed = f"a list of {what}"

    def read(key: str, raw: Any) -> tuple[str, ...]:
        items = [part.strip() for part in raw.split(",") if part.strip()] if isinstance(raw, str) else raw
        if not isinstance(items, list | tuple) or len(items) > MOST_ITEMS:
            raise InvalidError(key, f"is not {allowed}")
        return tuple(_filled(key, item) for item in items)

    return Kind(allowed, read, list)


def allowed_targets() -> Kind[tuple[str, ...]]:
    """A list of hosts and networks."""
    one = strings("hosts, host:port, *.suffix and networks, such as [images.internal, 10.0.0.0/8]")

    def read(key: str, raw: Any) -> tuple[str, ...]:
        entries = one.read(key, raw)
        for entry in entries:
            parse_allow(key, entry)
        return entries

    return Kind(one.allowed, read, list)


def tls_targets() -> Kind[Mapping[str, Mapping[str, str]]]:
    """Ways to speak TLS, by name; in a variable or flag as JSON."""
    allowed = f"a mapping of names to {{{', '.join(TLS_KEYS)}}}, such as {{inside: {{ca: ca.pem}}}}"

    def read(key: str, raw: Any) -> Mapping[str, Mapping[str, str]]:
        try:
            targets = json.loads(raw) if isinstance(raw, str) else raw
        except (ValueError, RecursionError):
            targets = None
        if not isinstance(targets, Mapping) or len(targets) > MOST_ITEMS:
            raise InvalidError(key, f"is not {allowed}")
        return {check_name(key, name, longest=63): _read_tls(f"{key}.{name}", one) for name, one in targets.items()}

    return Kind(allowed, read, lambda value: {name: dict(one) for name, one in value.items()})


def _read_tls(key: str, raw: Any) -> Mapping[str, str]:
    if not isinstance(raw, Mapping) or not raw.keys() <= set(TLS_KEYS):
        raise InvalidError(key, f"may have {', '.join(TLS_KEYS)}")
    if ("cert" in raw) != ("key" in raw):
        raise InvalidError(key, "needs cert and key together")
    return {name: _filled(f"{key}.{name}", text) for name, text in raw.items()}


def _filled(key: str, text: object) -> str:
    checked = check_text(key, text, longest=LONGEST_TEXT)
    if not checked.strip():
        raise InvalidError(key, "is empty")
    return checked
