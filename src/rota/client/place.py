"""Where the server is, and who asks."""

import os
from dataclasses import dataclass, field, replace
from datetime import timedelta
from ipaddress import ip_address
from urllib.parse import urlsplit

from rota.__about__ import __version__
from rota.client.call import PREFIX
from rota.client.folder import find_running, read_token_file
from rota.domain.durations import parse_duration
from rota.domain.errors import ConfigError
from rota.sdk.control import Duration

USUAL_PORT = 8420
DEFAULT_URL = f"http://127.0.0.1:{USUAL_PORT}"
DEFAULT_TIMEOUT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Place:
    """A server and a token for it."""

    url: str
    token: str = field(repr=False)
    timeout: timedelta = DEFAULT_TIMEOUT
    connect_within: timedelta | None = None  # when to stop trying where nobody listens; None: with the timeout

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine: a proxy that the environment names could not reach it."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def before_grpc(self) -> str:
        """Where the API is over HTTP if this is the port for gRPC, which usually is the one after it."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition(":")[0] if parts.port else parts.netloc
        return f"{parts.scheme}://{host}:{parts.port - 1 if parts.port and parts.port > 1 else USUAL_PORT}"

    @property
    def headers(self) -> dict[str, str]:
        """What goes with every request."""
        known = {"User-Agent": f"rota/{__version__}", "Accept": "application/json"}
        return {**known, "Authorization": f"Bearer {self.token}"} if self.token else known


def find_place(url: str | None, token: str | None, *, timeout: Duration) -> Place:
    """What was given, or else what the environment says, or else the `rota dev` of this folder.

    The token in this folder is for servers of this machine alone."""
    place = Place(
        url=check_url(url or os.environ.get("ROTA_URL") or find_served() or DEFAULT_URL),
        token=_check_token(token if token is not None else os.environ.get("ROTA_TOKEN", "")),
        timeout=parse_duration("timeout", timeout),
    )
    if token is not None or place.token or not place.is_local:
        return place
    return replace(place, token=_check_token(read_token_file() or ""))


def find_served() -> str | None:
    """Where the `rota dev` of this folder serves, while it runs.

    It serves this machine alone: a folder that came from elsewhere must not send a token of the environment away.
    """
    address = find_running()
    try:
        return address if address is not None and Place(check_url(address), "").is_local else None
    except ConfigError:
        return None


def check_url(text: str) -> str:
    """A URL of a server, without the slash at its end; that of its API, which `rota dev` prints, is as good."""
    try:
        parts = urlsplit(text)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound = False
    if not is_sound or any(mark in text for mark in "?#@"):
        raise ConfigError(f"{text!r} is not the URL of a server", fix=f"rota cluster --url {DEFAULT_URL}")
    return text.rstrip("/").removesuffix(PREFIX).rstrip("/")


def _check_token(token: str) -> str:
    if not token.isascii() or any(character <= " " for character in token.strip()):
        raise ConfigError("the token has characters that no token has", fix="copy it once more, as one word")
    return token.strip()
