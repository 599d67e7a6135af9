"""Secrets taken out of what people get to see: logs, and settings that are shown.

Two rules: a value whose name sounds like a secret is never shown, and credentials inside a text (in a URL, after
`Bearer`, a token of ours) are covered wherever they stand.
"""

import re
from collections.abc import Mapping
from typing import Any

COVER = "***"
DEEPEST = 8  # levels of a nested value; what lies deeper is covered unseen

_SECRET_NAME = re.compile(
    r"passw(or)?d|passphrase|secret|token|authorization|credential|cookie|api_?key|private_?key|access_?key", re.I
)
# Repetitions are bounded: a hostile text must not take time that grows with its square. A password may contain / and @,
# so it reaches to the last @, unless what looks like one is a port.
_URL_PASSWORD = re.compile(
    r"(?P<before>\b[a-z][a-z0-9+.-]{0,30}://[^\s/?#:@]{0,256}:)(?!\d{1,5}[/?#])[^\s]{0,1024}(?=@)", re.I
)
_QUERY_SECRET = re.compile(
    r"(?P<before>[?&;][\w.-]{0,64}(passw(or)?d|secret|token|api_?key)[\w.-]{0,64}=)[^&#;\s'\"]+", re.I
)
_BEARER = re.compile(r"(?P<before>\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}", re.I)
_OWN_TOKEN = re.compile(r"(?P<before>\brota_)[A-Za-z0-9_-]{20,}")
_PATTERNS = (_URL_PASSWORD, _QUERY_SECRET, _BEARER, _OWN_TOKEN)


def is_secret_name(name: str) -> bool:
    """Whether something called so is not for everyone's eyes."""
    return _SECRET_NAME.search(name) is not None


def redact_text(text: str) -> str:
    """The text with its credentials covered."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<before>{COVER}", text)
    return text


def redact(value: Any, *, depth: int = 0) -> Any:
    """The value with all its secrets covered, in texts, mappings and lists."""
    if isinstance(value, str):
        return redact_text(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth == DEEPEST:
        return COVER
    if isinstance(value, Mapping):
        return {key: redact_named(str(key), item, depth=depth + 1) for key, item in value.items()}
    return [redact(item, depth=depth + 1) for item in value]


def redact_named(name: str, value: Any, *, depth: int = 0) -> Any:
    """The value of a field: covered wholly when its name says so, unless there is nothing to cover."""
    is_empty = value is None or (isinstance(value, Mapping | list | tuple) and not value)
    if is_secret_name(name) and not is_empty and not isinstance(value, bool | int | float):
        return COVER
    return redact(value, depth=depth)
