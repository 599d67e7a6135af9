"""The session of a browser: proof for some hours that it once showed the secret of a token.

It reads `<token id>.<until>.<signature>`. The signature is an HMAC under a key that all nodes of the cluster share, so
any of them can tell a good one. It names the token and holds nothing of its secret: whoever finds it can use it until
it ends or the token is revoked, and can make no longer one of it.
"""

import base64
import hmac
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

SESSION_LIFE = timedelta(hours=12)
_SESSION = re.compile(
    r"(?P<token_id>[1-9][0-9]{0,18})\.(?P<until>[1-9][0-9]{0,10})\.(?P<signature>[A-Za-z0-9_-]{43})", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Session:
    """What a browser keeps."""

    token_id: str
    until: datetime
    text: str = field(repr=False)


def open_session(key: bytes, token_id: str, *, at: datetime) -> Session:
    """A session that begins now; it ends at a whole second."""
    until = int((at + SESSION_LIFE).timestamp())
    text = f"{token_id}.{until}.{_sign(key, token_id, until=until)}"
    return Session(token_id, datetime.fromtimestamp(until, UTC), text)


def find_session(key: bytes, text: str, *, at: datetime) -> Session | None:
    """The session that a text spells; None for what is forged, misspelt or over."""
    found = _SESSION.fullmatch(text)
    if found is None:
        return None
    token_id, until = found["token_id"], int(found["until"])
    is_good = hmac.compare_digest(_sign(key, token_id, until=until), found["signature"])
    if not is_good or at.timestamp() >= until:
        return None
    return Session(token_id, datetime.fromtimestamp(until, UTC), text)


def name_cookie(key: bytes) -> str:
    """What the cookie is called: browsers do not keep the ports of a host apart, so that each cluster needs its own."""
    return f"rota_session_{hmac.digest(key, b'cookie', 'sha256').hex()[:8]}"


def _sign(key: bytes, token_id: str, *, until: int) -> str:
    text = f"session\n{token_id}\n{until}"
    return base64.urlsafe_b64encode(hmac.digest(key, text.encode(), "sha256")).decode().rstrip("=")
