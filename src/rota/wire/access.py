"""Tokens, and the record of who changed what."""

from datetime import datetime

from rota.wire.base import Answer, Request


class CreateToken(Request):
    """`role`: viewer, operator or admin."""

    name: str
    role: str = "viewer"
    expires_in_seconds: float | None = None


class Token(Answer):
    id: str
    name: str
    role: str
    tenant: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewToken(Answer):
    """`secret` is shown this once: only its digest is kept."""

    token: Token
    secret: str


class AuditEntry(Answer):
    """One change. `actor` is the name of the token; several may have the same, so `token_id` says which it was."""

    id: str
    at: datetime
    actor: str
    token_id: str | None
    action: str
    object: str
    address: str
    detail: str
