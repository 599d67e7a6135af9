"""The URLs of servers taken apart. One may hold a password, so an error quotes nothing of it."""

from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from rota.domain.errors import ConfigError

SPELLED = "in a password, / ? # @ [ ] are %2F %3F %23 %40 %5B %5D"
UNREADABLE = f"its servers cannot be read; {SPELLED}"


def split_url(url: str, *, named: str = "url", fix: str = "") -> SplitResult:
    """Its parts. `ConfigError` for a bracket that is not around an address of IPv6; which of them Python refuses by
    itself differs by its release."""
    parts: SplitResult | None = None
    with suppress(ValueError):  # which may quote what it could not read
        parts = urlsplit(url)
    if parts is None or set("[]") & set(parts.netloc.rpartition("@")[0]):
        raise ConfigError(f"{named}: {UNREADABLE}", fix=fix)
    return parts
