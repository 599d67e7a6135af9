"""What the settings of calls over gRPC may be."""

import json
from collections.abc import Mapping
from typing import Any

from rota.config.kinds import LONGEST_TEXT, MOST_ITEMS, Kind, filled, show, split
from rota.domain.checks import check_name, check_text
from rota.domain.errors import InvalidError
from rota.infrastructure.executors.targets import parse_allow


def strings(what: str) -> Kind[tuple[str, ...]]:
    """A list of texts; in a variable or flag separated by commas."""
    allowed = f"a list of {what}"

    def read(key: str, raw: Any) -> tuple[str, ...]:
        items = split(raw)
        if not isinstance(items, list | tuple) or len(items) > MOST_ITEMS:
            raise InvalidError(key, f"{show(raw)} is not {allowed}")
        return tuple(filled(key, check_text(key, item, longest=LONGEST_TEXT)) for item in items)

    return Kind(allowed, read, list)


def allowed_targets() -> Kind[tuple[str, ...]]:
    """A list of hosts and networks."""
    one = strings("hosts and networks such as [images.internal, 10.0.0.0/8]")

    def read(key: str, raw: Any) -> tuple[str, ...]:
        entries = one.read(key, raw)
        for entry in entries:
            parse_allow(key, entry)
        return entries

    return Kind(one.allowed, read, list)


TLS_KEYS = ("ca", "cert", "key", "server_name")


def tls_targets() -> Kind[Mapping[str, Mapping[str, str]]]:
    """Ways to speak TLS, by name; in a variable or flag as JSON."""
    allowed = f"a mapping of names to {{{', '.join(TLS_KEYS)}}}, such as {{inside: {{ca: ca.pem}}}}"

    def read(key: str, raw: Any) -> Mapping[str, Mapping[str, str]]:
        targets = _read_json(raw)
        if not isinstance(targets, Mapping) or len(targets) > MOST_ITEMS:
            raise InvalidError(key, f"{show(raw)} is not {allowed}")
        return {check_name(key, name, longest=63): _read_tls(f"{key}.{name}", one) for name, one in targets.items()}

    return Kind(allowed, read, lambda value: {name: dict(one) for name, one in value.items()})


def _read_tls(key: str, raw: Any) -> Mapping[str, str]:
    if not isinstance(raw, Mapping) or not raw.keys() <= set(TLS_KEYS):
        raise InvalidError(key, f"may have {', '.join(TLS_KEYS)}")
    if ("cert" in raw) != ("key" in raw):
        raise InvalidError(key, "needs cert and key together")
    return {name: filled(key, check_text(f"{key}.{name}", text, longest=LONGEST_TEXT)) for name, text in raw.items()}


def _read_json(raw: Any) -> Any:
    try:
        return json.loads(raw) if isinstance(raw, str) else raw
    except (ValueError, RecursionError):
        return raw
