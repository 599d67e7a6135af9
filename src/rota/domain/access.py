"""Who may do what: tokens, the roles they carry, and whoever holds one.

A secret reads `rota_<token id>_<43 characters>`: the id finds the token, the rest is 256 bits of chance. Only the
digest of the whole secret is kept, so what the store holds lets nobody in. A fast digest is right here: nobody guesses
256 bits, however quickly each guess is checked.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from rota.domain.checks import check_text
from rota.domain.errors import DeniedError, InvalidError
from rota.domain.ids import TenantId

MAX_TOKEN_NAME = 200
SHORTEST_TOKEN_LIFE = timedelta(seconds=1)
_SECRET = re.compile(r"rota_(?P<token_id>[1-9][0-9]{0,18})_[A-Za-z0-9_-]{43}")


class Role(StrEnum):
    """What a token is good for; each role covers those before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, other: "Role") -> bool:
        """Whether whoever has this role may do what the other one may."""
        return _ORDER.index(self) >= _ORDER.index(other)


_ORDER = tuple(Role)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """The right to act in one tenant, for whoever holds the secret."""

    id: str
    tenant_id: TenantId
    name: str
    role: Role
    digest: str  # of the secret, which is kept nowhere
    created_at: datetime
    expires_at: datetime | None = None  # None: never
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def admits(self, secret: str, *, at: datetime) -> bool:
        """Whether this is its secret, and it is still good. Takes the same time for every wrong secret."""
        return hmac.compare_digest(self.digest, digest_of(secret)) and self.is_good(at)

    def is_good(self, at: datetime) -> bool:
        """Whether it was neither revoked nor has expired."""
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks, proven by a token, or by the link of an attempt, which is good for that and nothing else."""

    token_id: str  # empty: by a link
    name: str
    tenant_id: TenantId
    role: Role

    @property
    def is_link(self) -> bool:
        """Whether this is whoever was given an attempt, rather than the holder of a token."""
        return not self.token_id

    def require(self, role: Role) -> None:
        """Raise `DeniedError` unless this role is covered."""
        if not self.role.covers(role):
            raise DeniedError(role, present=self.role)


def spell_secret(token_id: str, chance: str) -> str:
    """The secret of a token, from 43 characters of chance."""
    return f"rota_{token_id}_{chance}"


def find_token_id(secret: str) -> str | None:
    """Which token a secret claims to be of; None for what cannot be a secret of ours."""
    match = _SECRET.fullmatch(secret)
    return match["token_id"] if match else None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def check_token_name(field: str, value: object) -> str:
    """What a person calls a token: one line of text."""
    name = check_text(field, value, longest=MAX_TOKEN_NAME)
    if not name.strip() or not name.isprintable():
        raise InvalidError(field, "must be a line of text that says what the token is for")
    return name


def parse_role(field: str, value: str) -> Role:
    try:
        return Role(value)
    except ValueError as exc:
        raise InvalidError(field, f"{value!r} is not a role; use {', '.join(Role)}") from exc
