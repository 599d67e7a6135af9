"""What the settings of calls over gRPC may be."""

import json
from collections.abc import Mapping
from typing import Any

from rota.config.kinds import LONGEST_TEXT, MOST_ITEMS, Kind, read_list
from rota.domain.checks import check_name, check_text
from rota.domain.errors import InvalidError
from rota.infrastructure.executors.grpc.call import MAX_ENTRIES, read_entry
from rota.infrastructure.executors.grpc.settings import TlsTarget
from rota.infrastructure.executors.targets import parse_allow

TEXT_KEYS = ("ca", "cert", "key", "server_name")
TLS_KEYS = ("hosts", *TEXT_KEYS, "secret_metadata")


def strings(what: str, *examples: str) -> Kind[tuple[str, ...]]:
    """A list of texts; in a variable or flag separated by commas."""
    allowed = f"a list of {what}, such as [{', '.join(examples)}]"

    def read(key: str, raw: Any) -> tuple[str, ...]:
        items = read_list(key, raw, allowed=allowed, typed=",".join(examples))
        return tuple(_filled(key, item) for item in items)

    return Kind(allowed, read, list)


def allowed_targets() -> Kind[tuple[str, ...]]:
    """A list of hosts and networks."""
    one = strings("hosts, host:port, *.suffix and networks", "images.internal", "10.0.0.0/8")

    def read(key: str, raw: Any) -> tuple[str, ...]:
        entries = one.read(key, raw)
        for entry in entries:
            parse_allow(key, entry)
        return entries

    return Kind(one.allowed, read, list)


def tls_targets() -> Kind[Mapping[str, TlsTarget]]:
    """Ways to speak TLS, by name; in a variable or flag as JSON."""
    allowed = f"a mapping of names to {{{', '.join(TLS_KEYS)}}}, such as {{inside: {{ca: ca.pem}}}}"

    def read(key: str, raw: Any) -> Mapping[str, TlsTarget]:
        try:
            targets = json.loads(raw) if isinstance(raw, str) else raw
        except (ValueError, RecursionError):
            targets = None
        if not isinstance(targets, Mapping) or len(targets) > MOST_ITEMS:
            raise InvalidError(key, f"is not {allowed}")
        return {check_name(key, name, longest=63): _read_tls(f"{key}.{name}", one) for name, one in targets.items()}

    return Kind(allowed, read, lambda value: {name: _write_tls(one) for name, one in value.items()})


def _read_tls(key: str, raw: Any) -> TlsTarget:
    if not isinstance(raw, Mapping) or not raw.keys() <= set(TLS_KEYS):
        raise InvalidError(key, f"may have {', '.join(TLS_KEYS)}")
    if ("cert" in raw) != ("key" in raw):
        raise InvalidError(key, "needs cert and key together")
    if "hosts" not in raw and ("cert" in raw or "secret_metadata" in raw):
        raise InvalidError(f"{key}.hosts", "must list the hosts that may see the certificate and the secrets")
    return TlsTarget(
        hosts=_read_hosts(f"{key}.hosts", raw["hosts"]) if "hosts" in raw else (),
        secret_metadata=_read_secrets(f"{key}.secret_metadata", raw.get("secret_metadata", {})),
        **{name: _filled(f"{key}.{name}", raw[name]) for name in TEXT_KEYS if name in raw},
    )


def _read_hosts(key: str, raw: Any) -> tuple[str, ...]:
    hosts = strings("hosts").read(key, raw)
    if not hosts:
        raise InvalidError(key, "is empty; list the hosts that it is for, as host or host:port")
    return tuple(host.lower() for host in hosts)


def _read_secrets(key: str, raw: Any) -> Mapping[str, str]:
    if not isinstance(raw, Mapping) or len(raw) > MAX_ENTRIES or not all(isinstance(name, str) for name in raw):
        raise InvalidError(key, f"must be text by name, at most {MAX_ENTRIES} of them")
    return dict(read_entry(key, name, value=value) for name, value in raw.items())


def _write_tls(target: TlsTarget) -> dict[str, Any]:
    given = {name: getattr(target, name) for name in TEXT_KEYS if getattr(target, name) is not None}
    hosts = {"hosts": list(target.hosts)} if target.hosts else {}
    secrets = {"secret_metadata": dict(target.secret_metadata)} if target.secret_metadata else {}
    return {**hosts, **given, **secrets}


def _filled(key: str, text: object) -> str:
    checked = check_text(key, text, longest=LONGEST_TEXT)
    if not checked.strip():
        raise InvalidError(key, "is empty")
    return checked
