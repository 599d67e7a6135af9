"""Tokens: who may come in.

What the store says of a token is kept for `KEEP`, also that there is none, so that a request costs no question to the
store and a revocation counts on every node within that time. What does not exist is remembered apart: whoever tries
secrets cannot drive out those in use. When a token was last used is noted beside the requests, by a loop of its own.
"""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

from rota.application.audit import Actor, record
from rota.application.node import Node
from rota.domain.access import (
    SHORTEST_TOKEN_LIFE,
    AccessToken,
    Principal,
    Role,
    check_token_name,
    digest_of,
    find_token_id,
    spell_secret,
)
from rota.domain.checks import check_duration, check_number
from rota.domain.errors import NotFoundError, UnauthenticatedError
from rota.domain.ids import TenantId
from rota.domain.paging import MAX_PAGE

KEEP = timedelta(seconds=5)
MOST = 10_000  # tokens that are remembered, and as many that do not exist
TOUCH_EVERY = timedelta(seconds=5)
USE_NOTED_EVERY = timedelta(minutes=1)  # per token: that it is in use is worth no more writes
MOST_TOUCHED = 500  # in one transaction

T = TypeVar("T")


class Tokens:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[str, tuple[AccessToken, float]] = {}  # until when it is good to know
        self._unknown: dict[str, float] = {}
        self._used: dict[str, datetime] = {}  # what the store has yet to be told

    async def authenticate(self, secret: str) -> Principal:
        """Whose secret this is. What is unknown, wrong, expired or revoked raises the same `UnauthenticatedError`."""
        token_id = find_token_id(secret)
        token = None if token_id is None else await self._find(token_id)
        now = self._node.time.now()
        if token is None or not token.admits(secret, at=now):
            raise UnauthenticatedError
        return self._admit(token, now)

    async def readmit(self, token_id: str) -> Principal:
        """Whoever has shown the secret of this token before and can prove that; the proof is the caller's to judge.
        Raises `UnauthenticatedError` once the token has ended."""
        token, now = await self._find(token_id), self._node.time.now()
        if token is None or not token.is_good(now):
            raise UnauthenticatedError
        return self._admit(token, now)

    async def issue(
        self, *, tenant_id: TenantId, name: str, role: Role, expires_in: timedelta | None, actor: Actor | None
    ) -> tuple[AccessToken, str]:
        """Make a token. Its secret is in the answer and nowhere else."""
        check_token_name("name", name)
        if expires_in is not None:
            check_duration("expires_in_seconds", expires_in, least=SHORTEST_TOKEN_LIFE)
        token_id, now = str(self._node.ids.next()), self._node.time.now()
        # Not of the node's chance, which is for jitter and may be repeated: a secret must never be.
        secret = spell_secret(token_id, secrets.token_urlsafe(32))
        token = AccessToken(
            id=token_id,
            tenant_id=tenant_id,
            name=name,
            role=role,
            digest=digest_of(secret),
            created_at=now,
            expires_at=None if expires_in is None else now + expires_in,
        )
        audit = record(self._node, actor, action="token.create", subject=token_id, detail=f"{role}: {name}")
        await self._node.store.tokens.add(token, audit=audit)
        return token, secret

    async def revoke(self, token_id: str, tenant_id: TenantId, *, actor: Actor | None) -> None:
        """End a token for good; one that is revoked already stays as it is. Counts within `KEEP` on every node."""
        tokens = self._node.store.tokens
        audit = record(self._node, actor, action="token.revoke", subject=token_id)
        is_new = await tokens.revoke(tenant_id, token_id, at=self._node.time.now(), audit=audit)
        self._known.pop(token_id, None)
        if is_new:
            return
        known = await tokens.find(token_id)
        if known is None or known.tenant_id != tenant_id:
            raise NotFoundError("token", token_id)

    async def list(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> Sequence[AccessToken]:
        """A page of the tenant's tokens by id, also of those that have ended."""
        check_number("limit", limit, least=1, most=MAX_PAGE)
        return await self._node.store.tokens.list_page(tenant_id, after=after, limit=limit)

    async def run(self) -> None:
        """Note uses, for ever. Whoever authenticates keeps this running beside it."""
        await self._node.loops.keep("tokens.touch", self.touch, every=TOUCH_EVERY)

    async def touch(self) -> None:
        """Tell the store of the uses since the last time. What it does not take is told the next time."""
        while self._used:
            uses = dict(islice(self._used.items(), MOST_TOUCHED))
            await self._node.store.tokens.touch(uses)
            for token_id, at in uses.items():
                self._used.pop(token_id, None)
                if (kept := self._known.get(token_id)) is not None:
                    self._known[token_id] = (replace(kept[0], last_used_at=at), kept[1])

    async def _find(self, token_id: str) -> AccessToken | None:
        """The token, as it was at most `KEEP` ago."""
        now = self._node.clock.monotonic()
        kept = self._known.get(token_id)
        if kept is not None and now < kept[1]:
            return kept[0]
        if now < self._unknown.get(token_id, now):
            return None
        return await self._read(token_id)

    async def _read(self, token_id: str) -> AccessToken | None:
        keep_until = self._node.clock.monotonic() + KEEP.total_seconds()  # from when it was asked
        token = await self._node.store.tokens.find(token_id)
        if token is None:
            self._known.pop(token_id, None)
            _keep(self._unknown, token_id, value=keep_until)
        else:
            _keep(self._known, token_id, value=(token, keep_until))
        return token

    def _admit(self, token: AccessToken, now: datetime) -> Principal:
        self._note_use(token, now)
        return Principal(token_id=token.id, name=token.name, tenant_id=token.tenant_id, role=token.role)

    def _note_use(self, token: AccessToken, now: datetime) -> None:
        last = token.last_used_at
        is_news = last is None or now - last >= USE_NOTED_EVERY
        if is_news and token.id not in self._used and len(self._used) < MOST:
            self._used[token.id] = now


def _keep(kept: dict[str, T], key: str, *, value: T) -> None:
    """Remember it as the newest; beyond `MOST` the oldest is forgotten."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > MOST:
        del kept[next(iter(kept))]
