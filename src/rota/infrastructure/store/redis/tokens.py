"""Tokens in Redis. They are few: a page is cut from all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from rota.domain.access import AccessToken
from rota.domain.audit import AuditEntry
from rota.domain.errors import ConflictError
from rota.domain.ids import TenantId
from rota.domain.paging import purge_limit
from rota.infrastructure.store.redis.space import Change, RedisSpace

_TOKEN = msgspec.json.Decoder(AccessToken)


class RedisTokenStore:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space
        self._key = space.key("tokens")

    async def add(self, token: AccessToken, *, audit: Sequence[AuditEntry] = ()) -> None:
        place = (self._key, token.id)

        def plan(found: Sequence[bytes | None]) -> tuple[Change, None]:
            if found[0] is None:
                return Change().put(place, msgspec.json.encode(token)).note(self._space, audit), None
            known = _TOKEN.decode(found[0])
            if (known.tenant_id, known.digest) != (token.tenant_id, token.digest):
                raise ConflictError(f"another token has the id {token.id}")
            return Change(), None

        await self._space.decide([place], plan)

    async def find(self, token_id: str) -> AccessToken | None:
        found = await self._space.find((self._key, token_id))
        return None if found is None else _TOKEN.decode(found)

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[AccessToken]:
        tokens = map(_TOKEN.decode, (await self._space.read_hash(self._key)).values())
        own = [token for token in tokens if token.tenant_id == tenant_id and token.id > after]
        return sorted(own, key=lambda token: token.id)[:limit]

    async def revoke(
        self, tenant_id: TenantId, token_id: str, *, at: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        place = (self._key, token_id)

        def plan(found: Sequence[bytes | None]) -> tuple[Change, bool]:
            token = None if found[0] is None else _TOKEN.decode(found[0])
            if token is None or token.tenant_id != tenant_id:
                return Change(), False
            if token.revoked_at is not None:
                return Change(), token.revoked_at == at
            ended = Change().put(place, msgspec.json.encode(replace(token, revoked_at=at)))
            return ended.note(self._space, audit), True

        return await self._space.decide([place], plan)

    async def touch(self, uses: Mapping[str, datetime]) -> None:
        def used(document: bytes) -> bytes:
            token = _TOKEN.decode(document)
            used_at = uses[token.id]
            if token.last_used_at is not None and token.last_used_at >= used_at:
                return document
            return msgspec.json.encode(replace(token, last_used_at=used_at))

        await self._space.change_documents(self._key, list(uses), change=used)

    async def purge(self, *, ended_before: datetime, limit: int) -> int:
        found = await self._space.read_hash(self._key)
        old = sorted(one for one, document in found.items() if _ended_before(_TOKEN.decode(document), ended_before))
        return await self._space.delete_unchanged(self._key, {one: found[one] for one in old[: purge_limit(limit)]})


def _ended_before(token: AccessToken, moment: datetime) -> bool:
    return any(end is not None and end < moment for end in (token.revoked_at, token.expires_at))
