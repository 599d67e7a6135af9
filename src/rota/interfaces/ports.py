"""Ports that are taken, and others in their place."""

import socket

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
        first = int(getattr(api, key)) + 1
        rest = range(first, min(first + MOST_TRIED, 65536))
        port = next((port for port in rest if port not in used and not is_taken(api.host, port)), 0)
        used.add(port)
        flags.append(f"--set api.{key}={port}")
    return " ".join(flags)
