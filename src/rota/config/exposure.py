"""Who can reach the API, and whether tokens are safe on the way to it."""

import ipaddress

from rota.config.settings import ApiSettings
from rota.domain.errors import ConfigError


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


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
