"""Tokens in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from rota.domain.access import AccessToken
from rota.domain.audit import AuditEntry
from rota.domain.errors import ConflictError
from rota.domain.ids import TenantId
from rota.domain.paging import purge_limit
from rota.infrastructure.store.memory.state import MemoryState


class MemoryTokenStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def add(self, token: AccessToken, *, audit: Sequence[AuditEntry] = ()) -> None:
        known = self._state.tokens.get(token.id)
        if known is None:
            self._state.tokens[token.id] = token
            self._state.record(audit)
        elif (known.tenant_id, known.digest) != (token.tenant_id, token.digest):
            raise ConflictError(f"another token has the id {token.id}")

    async def find(self, token_id: str) -> AccessToken | None:
        return self._state.tokens.get(token_id)

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[AccessToken]:
        own = (token for _, token in sorted(self._state.tokens.items()) if token.tenant_id == tenant_id)
        return [token for token in own if token.id > after][:limit]

    async def revoke(
        self, tenant_id: TenantId, token_id: str, *, at: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        token = self._state.tokens.get(token_id)
        if token is None or token.tenant_id != tenant_id:
            return False
        if token.revoked_at is None:
            self._state.tokens[token_id] = replace(token, revoked_at=at)
            self._state.record(audit)
        return self._state.tokens[token_id].revoked_at == at

    async def touch(self, uses: Mapping[str, datetime]) -> None:
        for token_id in uses.keys() & self._state.tokens.keys():
            token = self._state.tokens[token_id]
            if token.last_used_at is None or token.last_used_at < uses[token_id]:
                self._state.tokens[token_id] = replace(token, last_used_at=uses[token_id])

    async def purge(self, *, ended_before: datetime, limit: int) -> int:
        ended = [token.id for token in self._state.tokens.values() if _ended_before(token, ended_before)]
        doomed = sorted(ended)[: purge_limit(limit)]
        for token_id in doomed:
            del self._state.tokens[token_id]
        return len(doomed)


def _ended_before(token: AccessToken, moment: datetime) -> bool:
    return any(end is not None and end < moment for end in (token.revoked_at, token.expires_at))
