"""Who can reach the API, and whether tokens are safe on the way to it."""

import ipaddress
import socket

from rota.config.settings import ApiSettings
from rota.domain.errors import ConfigError

EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 they are compared with, nobody listens there


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def own_url(api: ApiSettings) -> str:
    """Where the API of these settings is reached from this machine; empty where its port is any free one."""
    if not api.port:
        return ""
    host = socket.gethostname() if api.host in EVERY_ADDRESS else api.host
    scheme = "http" if api.tls_cert is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{api.port}"


def check_exposure(api: ApiSettings) -> None:
    """Refuse to listen where tokens would travel in the clear, or with half of what TLS needs."""
    if (api.tls_cert is None) != (api.tls_key is None):
        absent = "api.tls_key" if api.tls_key is None else "api.tls_cert"
        raise ConfigError(f"{absent} is missing: TLS needs a certificate and its key", fix=f"set {absent}")
    if is_loopback(api.host) or api.tls_cert is not None or api.behind_tls_proxy:
        return
    problem = f"api.host: {api.host} can be reached from other machines, and tokens would travel in the clear"
    fix = (
        "set api.tls_cert and api.tls_key; or api.behind_tls_proxy: true if a proxy in front does TLS;"
        " or api.host: 127.0.0.1"
    )
    raise ConfigError(problem, fix=fix)
