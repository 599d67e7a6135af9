"""What the settings of the HTTP executor may be: targets that are allowed, secrets, and what hosts need."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.config.kinds import MOST_ITEMS, Kind, read_list
from rota.domain.checks import check_name, check_text
from rota.domain.errors import InvalidError
from rota.infrastructure.executors.http.config import is_header_value
from rota.infrastructure.executors.http.settings import SecretSettings, TargetSettings
from rota.infrastructure.executors.targets import parse_allow
from rota.sdk.signing import key_of

MOST_SECRETS = 2  # the present one and the one before or after it
SECRET_KEYS = ("keys", "hosts")
TARGET_KEYS = ("hosts", "ca", "cert", "key", "secret_headers", "allow_http")


def allowed_targets() -> Kind[tuple[str, ...]]:
    """Hosts and networks; in a variable or flag separated by commas."""
    allowed = "a list of hosts, host:port, *.suffix and networks, such as [crm.internal, 10.0.0.0/8]"

    def read(key: str, raw: Any) -> tuple[str, ...]:
        items = read_list(key, raw, allowed=allowed, typed="crm.internal,10.0.0.0/8")
        for item in items:
            parse_allow(key, check_text(key, item, longest=300))
        return tuple(items)

    return Kind(allowed, read, list)


def secrets() -> Kind[Mapping[str, SecretSettings]]:
    """Secrets by name, one or two of each; in a variable or flag as JSON. What is wrong is told without them."""
    allowed = 'one or two keys with their hosts by name, such as {default: {keys: ["whsec_…"], hosts: [crm.internal]}}'

    def read(key: str, raw: Any) -> Mapping[str, SecretSettings]:
        return {name: _read_secret(f"{key}.{name}", value) for name, value in _map(key, raw)}

    return Kind(allowed, read, lambda value: {name: _write_secret(secret) for name, secret in value.items()})


def targets() -> Kind[Mapping[str, TargetSettings]]:
    """What some hosts need, by name; in a variable or flag as JSON."""
    allowed = "hosts with ca, cert, key and secret_headers by name, such as {crm: {hosts: [crm.internal], ca: ca.pem}}"

    def read(key: str, raw: Any) -> Mapping[str, TargetSettings]:
        return {name: _read_target(f"{key}.{name}", value) for name, value in _map(key, raw)}

    return Kind(allowed, read, lambda value: {name: _write_target(target) for name, target in value.items()})


def _map(key: str, raw: Any) -> list[tuple[str, Any]]:
    try:
        value = json.loads(raw) if isinstance(raw, str) else raw
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, Mapping) or len(value) > MOST_ITEMS:
        raise InvalidError(key, "is no mapping by name")
    return [(check_name(key, name, longest=63), item) for name, item in value.items()]


def _read_secret(key: str, value: Any) -> SecretSettings:
    if not isinstance(value, Mapping) or set(value) != set(SECRET_KEYS):
        raise InvalidError(key, f"must be a mapping with {' and '.join(SECRET_KEYS)}: it signs for no other hosts")
    return SecretSettings(
        keys=_read_keys(f"{key}.keys", value["keys"]), hosts=_read_hosts(f"{key}.hosts", value["hosts"])
    )


def _read_keys(key: str, value: Any) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MOST_SECRETS:
        raise InvalidError(key, f"must be a list of one or {MOST_SECRETS} secrets")
    for secret in given:
        try:
            key_of(secret if isinstance(secret, str) else "")
        except ValueError as exc:
            raise InvalidError(key, str(exc)) from None
    return tuple(given)


def _read_target(key: str, value: Any) -> TargetSettings:
    if not isinstance(value, Mapping) or not set(value) <= set(TARGET_KEYS):
        raise InvalidError(key, f"must be a mapping with some of {', '.join(TARGET_KEYS)}")
    hosts = _read_hosts(f"{key}.hosts", value.get("hosts"))
    allow_http = value.get("allow_http", False)
    if not isinstance(allow_http, bool):
        raise InvalidError(f"{key}.allow_http", "must be true or false")
    paths = {name: _read_path(f"{key}.{name}", value.get(name)) for name in ("ca", "cert", "key")}
    if (paths["cert"] is None) != (paths["key"] is None):
        raise InvalidError(f"{key}.cert", "needs a key, and a key needs it")
    return TargetSettings(
        hosts=hosts,
        allow_http=allow_http,
        secret_headers=_read_headers(f"{key}.secret_headers", value.get("secret_headers", {})),
        **paths,
    )


def _read_hosts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MOST_ITEMS:
        raise InvalidError(key, "must list the hosts that it is for; it is used for no others")
    for host in value:
        parse_allow(key, check_text(key, host, longest=300))
        if "/" in host:
            raise InvalidError(key, f"{host!r} is a network; hosts, host:port and *.suffix may stand here")
    return tuple(host.strip().lower().rstrip(".") for host in value)


def _read_path(key: str, value: Any) -> str | None:
    if value is None:
        return None
    path = check_text(key, value, longest=4096)
    if not Path(path).is_file():
        raise InvalidError(key, f"{path!r} is no file")
    return path


def _read_headers(key: str, value: Any) -> Mapping[str, str]:
    texts = list(value.values()) if isinstance(value, Mapping) else [None]
    if not all(isinstance(text, str) and is_header_value(text) for text in texts):
        raise InvalidError(key, "must be visible ASCII text by the header's name")
    return {check_name(key, name, longest=100): text for name, text in value.items()}


def _write_target(target: TargetSettings) -> dict[str, Any]:
    files = {name: getattr(target, name) for name in ("ca", "cert", "key") if getattr(target, name) is not None}
    headers = {"secret_headers": dict(target.secret_headers)} if target.secret_headers else {}
    plain = {"allow_http": True} if target.allow_http else {}
    return {"hosts": list(target.hosts), **files, **headers, **plain}


def _write_secret(secret: SecretSettings) -> dict[str, Any]:
    return {"keys": list(secret.keys), "hosts": list(secret.hosts)}
