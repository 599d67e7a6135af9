"""The contract of a store: tokens."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from rota.domain.access import AccessToken, Role, digest_of
from rota.domain.errors import ConflictError, InvalidError
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.paging import MAX_PURGE
from rota.testing.contract.store_backend import AWKWARD_TEXTS, HOUR, HUGE, MICROSECOND, NOON, OTHER_TENANT, StoreBackend


@pytest.mark.asyncio
class TestTokens:
    async def test_a_token_comes_back_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        token = _token(
            tenant_id=OTHER_TENANT,
            role=Role.ADMIN,
            expires_at=NOON + HOUR,
            revoked_at=NOON + MICROSECOND,
            last_used_at=NOON + HOUR - MICROSECOND,
        )
        await store.tokens.add(token)
        assert await store.tokens.find(token.id) == token

    @pytest.mark.parametrize("role", list(Role))
    async def test_a_token_with_only_what_is_needed_comes_back_whole(self, backend: StoreBackend, role: Role) -> None:
        store = await backend.connect()
        await store.tokens.add(_token(role=role))
        assert await store.tokens.find("1") == _token(role=role)

    async def test_awkward_names_come_back_as_they_were(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tokens = [_token(str(number), name=text) for number, text in enumerate(AWKWARD_TEXTS)]
        for token in tokens:
            await store.tokens.add(token)
        assert await store.tokens.list_page(DEFAULT_TENANT) == tokens

    async def test_an_unknown_token_is_not_found(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.tokens.add(_token("12"))
        assert [await store.tokens.find(other) for other in ("1", "2", "123", "")] == [None] * 4

    async def test_every_node_finds_a_token(self, backend: StoreBackend) -> None:
        one, other = await backend.connect(), await backend.connect()
        await one.tokens.add(_token())
        assert await other.tokens.find("1") == _token()

    async def test_a_token_added_again_is_left_alone(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.tokens.add(_token())
        await store.tokens.touch({"1": NOON + HOUR})
        await store.tokens.add(_token())
        assert await store.tokens.find("1") == _token(last_used_at=NOON + HOUR)

    @pytest.mark.parametrize("change", [{"digest": digest_of("another")}, {"tenant_id": OTHER_TENANT}])
    async def test_another_token_under_the_same_id_is_refused(
        self, backend: StoreBackend, change: dict[str, Any]
    ) -> None:
        store = await backend.connect()
        await store.tokens.add(_token())
        with pytest.raises(ConflictError, match="another token has the id 1"):
            await store.tokens.add(_token(**change))
        assert await store.tokens.find("1") == _token()

    async def test_a_list_pages_by_id_within_a_tenant(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        ids = sorted(["1", "10", "2", "21", "3", "Z", "a", "b"])
        for token_id in ids[::-1]:
            await store.tokens.add(_token(token_id))
        await store.tokens.add(_token("22", tenant_id=OTHER_TENANT))
        pages = [await store.tokens.list_page(DEFAULT_TENANT, after=after, limit=3) for after in ("", "2", "a")]
        assert [[token.id for token in page] for page in pages] == [ids[:3], ids[3:6], ids[7:]]
        assert [token.id for token in await store.tokens.list_page(OTHER_TENANT)] == ["22"]

    async def test_a_use_is_noted_and_never_goes_back(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for token_id in ("1", "2"):
            await store.tokens.add(_token(token_id))
        await store.tokens.touch({"2": NOON + HOUR, "1": NOON, "unheard": NOON})
        await store.tokens.touch({"1": NOON + MICROSECOND, "2": NOON})
        await store.tokens.touch({})
        found = await store.tokens.list_page(DEFAULT_TENANT)
        assert [token.last_used_at for token in found] == [NOON + MICROSECOND, NOON + HOUR]


@pytest.mark.asyncio
class TestRevoke:
    async def test_a_revoked_token_stays_and_says_when(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.tokens.add(_token())
        assert await store.tokens.revoke(DEFAULT_TENANT, "1", at=NOON)
        assert await store.tokens.find("1") == _token(revoked_at=NOON)

    async def test_a_token_is_revoked_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.tokens.add(_token())
        assert await store.tokens.revoke(DEFAULT_TENANT, "1", at=NOON)
        assert not await store.tokens.revoke(DEFAULT_TENANT, "1", at=NOON + HOUR)
        assert await store.tokens.find("1") == _token(revoked_at=NOON)

    async def test_the_same_call_may_be_repeated(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.tokens.add(_token())
        assert [await store.tokens.revoke(DEFAULT_TENANT, "1", at=NOON) for _ in range(2)] == [True, True]

    async def test_another_tenants_token_is_not_revoked(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.tokens.add(_token(tenant_id=OTHER_TENANT))
        assert not await store.tokens.revoke(DEFAULT_TENANT, "1", at=NOON)
        assert await store.tokens.find("1") == _token(tenant_id=OTHER_TENANT)

    async def test_what_is_not_there_is_not_revoked(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert not await store.tokens.revoke(DEFAULT_TENANT, "1", at=NOON)

    async def test_of_two_nodes_that_revoke_one_does(self, backend: StoreBackend) -> None:
        nodes = [await backend.connect(), await backend.connect()]
        await nodes[0].tokens.add(_token())
        calls = [node.tokens.revoke(DEFAULT_TENANT, "1", at=NOON + number * HOUR) for number, node in enumerate(nodes)]
        assert sorted(await asyncio.gather(*calls)) == [False, True]


@pytest.mark.asyncio
class TestPurgeTokens:
    async def test_what_ended_before_is_deleted_and_what_is_good_stays(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        ends: dict[str, dict[str, Any]] = {
            "expired": {"expires_at": NOON - MICROSECOND},
            "expires then": {"expires_at": NOON},
            "for ever": {},
            "revoked": {"revoked_at": NOON - MICROSECOND, "expires_at": NOON + HOUR},
            "revoked then": {"revoked_at": NOON},
        }
        for token_id, end in ends.items():
            await store.tokens.add(_token(token_id, **end))
        assert await store.tokens.purge(ended_before=NOON, limit=10) == 2
        kept = [token.id for token in await store.tokens.list_page(DEFAULT_TENANT)]
        assert kept == ["expires then", "for ever", "revoked then"]

    async def test_no_more_are_deleted_than_asked_for(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for number in range(5):
            await store.tokens.add(_token(str(number), revoked_at=NOON))
        counts = [await store.tokens.purge(ended_before=NOON + HOUR, limit=limit) for limit in (2, 2, HUGE, MAX_PURGE)]
        assert counts == [2, 2, 1, 0]

    async def test_a_limit_below_1_is_refused(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        with pytest.raises(InvalidError):
            await store.tokens.purge(ended_before=NOON, limit=0)


def _token(key: str = "1", **changes: Any) -> AccessToken:
    token = AccessToken(
        id=key,
        tenant_id=DEFAULT_TENANT,
        name="deploy",
        role=Role.OPERATOR,
        digest=digest_of(key),
        created_at=NOON,
    )
    return replace(token, **changes)
