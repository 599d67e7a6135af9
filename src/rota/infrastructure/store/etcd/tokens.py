"""Tokens in etcd. They are few: a page is cut from all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from rota.domain.access import AccessToken
from rota.domain.audit import AuditEntry
from rota.domain.errors import ConflictError
from rota.domain.ids import TenantId
from rota.domain.paging import purge_limit
from rota.infrastructure.etcd.ops import Op, put
from rota.infrastructure.store.etcd.audit import audit_ops
from rota.infrastructure.store.etcd.nodes import delete_unchanged
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, Found

KIND = "tokens"
_TOKEN = msgspec.json.Decoder(AccessToken)


class EtcdTokenStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def add(self, token: AccessToken, *, audit: Sequence[AuditEntry] = ()) -> None:
        key = self._space.key(KIND, token.id)

        def plan(found: Found) -> tuple[list[Op], None]:
            if found[0] is None:
                return [put(key, msgspec.json.encode(token)), *audit_ops(self._space, audit)], None
            known = _read(found[0])
            if (known.tenant_id, known.digest) != (token.tenant_id, token.digest):
                raise ConflictError(f"another token has the id {token.id}")
            return [], None

        await self._space.decide([key], plan)

    async def find(self, token_id: str) -> AccessToken | None:
        found = await self._space.find(self._space.key(KIND, token_id))
        return None if found is None else _read(found)

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[AccessToken]:
        tokens = map(_read, await self._space.scan(self._space.all(KIND)))
        own = [token for token in tokens if token.tenant_id == tenant_id and token.id > after]
        return sorted(own, key=lambda token: token.id)[:limit]

    async def revoke(
        self, tenant_id: TenantId, token_id: str, *, at: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        key = self._space.key(KIND, token_id)

        def plan(found: Found) -> tuple[list[Op], bool]:
            token = None if found[0] is None else _read(found[0])
            if token is None or token.tenant_id != tenant_id:
                return [], False
            if token.revoked_at is not None:
                return [], token.revoked_at == at
            ended = put(key, msgspec.json.encode(replace(token, revoked_at=at)))
            return [ended, *audit_ops(self._space, audit)], True

        return await self._space.decide([key], plan)

    async def touch(self, uses: Mapping[str, datetime]) -> None:
        for token_id, used_at in uses.items():
            await self._touch(self._space.key(KIND, token_id), used_at)

    async def purge(self, *, ended_before: datetime, limit: int) -> int:
        found = await self._space.scan(self._space.all(KIND))
        old = sorted((kv for kv in found if _ended_before(_read(kv), ended_before)), key=lambda kv: kv.key)
        return await delete_unchanged(self._space, old[: purge_limit(limit)])

    async def _touch(self, key: str, used_at: datetime) -> None:
        def plan(found: Found) -> tuple[list[Op], None]:
            token = None if found[0] is None else _read(found[0])
            if token is None or (token.last_used_at is not None and token.last_used_at >= used_at):
                return [], None
            return [put(key, msgspec.json.encode(replace(token, last_used_at=used_at)))], None

        await self._space.decide([key], plan)


def _read(kv: KV) -> AccessToken:
    return _TOKEN.decode(kv.value)


def _ended_before(token: AccessToken, moment: datetime) -> bool:
    return any(end is not None and end < moment for end in (token.revoked_at, token.expires_at))
