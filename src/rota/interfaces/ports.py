"""Ports that are taken, and others in their place."""

import socket
from collections.abc import Collection

from rota.config.settings import ApiSettings
from rota.domain.errors import ConfigError

MOST_TRIED = 100


class PortTakenError(ConfigError):
    """Somebody else listens there."""


def is_taken(host: str, port: int) -> bool:
    """Whether nobody could listen there now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def suggest_ports(api: ApiSettings, *keys: str) -> str:
    """Flags that give each of these settings a port that is free now and not meant for another of them."""
    used = {api.port, api.grpc_port}
    flags = []
    for key in keys:
        port = find_free(api.host, int(getattr(api, key)) + 1, besides=used)
        used.add(port)
        flags.append(f"--set api.{key}={port}")
    return " ".join(flags)


def find_free(host: str, first: int, *, besides: Collection[int | None] = ()) -> int:
    """A port from this one on that is free now; 0, which is any, where there is none."""
    rest = range(first, min(first + MOST_TRIED, 65536))
    return next((port for port in rest if port not in besides and not is_taken(host, port)), 0)
