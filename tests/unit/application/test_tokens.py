"""Who comes in, and who does not."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from rota.application import tokens as module
from rota.application.audit import Actor
from rota.application.tokens import KEEP, TOUCH_EVERY, USE_NOTED_EVERY, Tokens
from rota.domain.access import AccessToken, Role, find_token_id, spell_secret
from rota.domain.errors import InvalidError, NotFoundError, StoreUnavailableError, UnauthenticatedError
from rota.domain.ids import DEFAULT_TENANT, TenantId
from rota.testing.faults import Fault
from tests.support.builders import HOUR, SECOND
from tests.support.virtual import Bench, a_bench, virtually

SHOP = TenantId("shop")
ADA = Actor(tenant_id=SHOP, name="ada", address="192.0.2.7")


async def a_gate() -> tuple[Bench, Tokens, AccessToken, str]:
    """A node with one token, which somebody asked for."""
    bench = await a_bench()
    tokens = Tokens(bench.node)
    return bench, tokens, *await issue(tokens)


async def issue(tokens: Tokens, **changes: Any) -> tuple[AccessToken, str]:
    wish: dict[str, Any] = {"tenant_id": SHOP, "name": "deploy", "role": Role.OPERATOR, "expires_in": HOUR}
    return await tokens.issue(**wish | {"actor": ADA} | changes)


async def refused(tokens: Tokens, secret: str) -> str:
    with pytest.raises(UnauthenticatedError) as error:
        await tokens.authenticate(secret)
    return str(error.value)


async def actions(bench: Bench) -> list[tuple[str, str]]:
    entries = await bench.node.store.audit.list_page(SHOP)
    return [(entry.action, entry.object) for entry in entries[::-1]]


async def last_use(bench: Bench, token: AccessToken) -> Any:
    """How long after its creation the store knows a use of it."""
    found = await bench.node.store.tokens.find(token.id)
    assert found is not None
    return None if found.last_used_at is None else found.last_used_at - token.created_at


def another_secret(secret: str) -> str:
    """Of the same token, but wrong in its last character."""
    return secret[:-1] + ("A" if secret[-1] != "A" else "B")


@virtually
async def test_the_secret_of_a_token_lets_its_holder_in() -> None:
    _, tokens, token, secret = await a_gate()
    principal = await tokens.authenticate(secret)
    assert (principal.token_id, principal.name) == (token.id, "deploy")
    assert (principal.tenant_id, principal.role) == (SHOP, Role.OPERATOR)


@virtually
async def test_a_secret_is_kept_nowhere_and_never_the_same() -> None:
    bench, tokens, token, secret = await a_gate()
    _, other = await issue(tokens)
    chance = secret.removeprefix(f"rota_{token.id}_")
    assert find_token_id(secret) == token.id
    assert chance != other[-43:]
    kept = repr([await bench.node.store.tokens.find(token.id), await bench.node.store.audit.list_page(SHOP)])
    assert chance not in kept


@virtually
async def test_unknown_wrong_expired_and_revoked_are_told_the_same() -> None:
    bench, tokens, token, secret = await a_gate()
    revoked, secret_of_revoked = await issue(tokens, expires_in=None)
    await tokens.revoke(revoked.id, SHOP, actor=None)
    told = {
        await refused(tokens, ""),
        await refused(tokens, "rota_é"),
        await refused(tokens, spell_secret("7", secret[-43:])),
        await refused(tokens, another_secret(secret)),
        await refused(tokens, secret_of_revoked),
    }
    await bench.clock.sleep(HOUR)
    told.add(await refused(tokens, secret))
    assert len(told) == 1
    assert token.id not in told.pop()


@virtually
async def test_a_token_without_an_end_stays_good() -> None:
    bench, tokens, _, _ = await a_gate()
    token, secret = await issue(tokens, expires_in=None)
    await bench.clock.sleep(timedelta(days=10))
    assert (await tokens.authenticate(secret)).token_id == token.id


@virtually
async def test_a_token_is_good_to_the_end_of_its_time_however_often_it_is_used() -> None:
    bench, tokens, _, _ = await a_gate()
    _, secret = await issue(tokens, expires_in=2 * SECOND)
    await tokens.authenticate(secret)
    await bench.clock.sleep(2 * SECOND - timedelta(milliseconds=1))
    await tokens.authenticate(secret)
    await bench.clock.sleep(timedelta(milliseconds=1))
    await refused(tokens, secret)


@virtually
async def test_a_token_in_use_costs_the_store_one_question_in_a_while() -> None:
    bench, tokens, _, secret = await a_gate()
    await tokens.authenticate(secret)
    bench.faults.inject("tokens.find", Fault.TIMEOUT, times=None)
    await bench.clock.sleep(KEEP - timedelta(milliseconds=1))
    await tokens.authenticate(secret)
    await bench.clock.sleep(timedelta(milliseconds=1))
    with pytest.raises(StoreUnavailableError):
        await tokens.authenticate(secret)


@virtually
async def test_what_does_not_exist_costs_the_store_one_question_in_a_while() -> None:
    bench, tokens, _, secret = await a_gate()
    made_up = spell_secret("7", secret[-43:])
    await refused(tokens, made_up)
    bench.faults.inject("tokens.find", Fault.TIMEOUT, times=None)
    await refused(tokens, made_up)
    await bench.clock.sleep(KEEP)
    with pytest.raises(StoreUnavailableError):
        await tokens.authenticate(made_up)


@virtually
async def test_a_revocation_counts_at_once_here_and_soon_elsewhere() -> None:
    bench, here, token, secret = await a_gate()
    elsewhere = Tokens(bench.node)
    for tokens in (here, elsewhere):
        await tokens.authenticate(secret)
    await here.revoke(token.id, SHOP, actor=ADA)
    await refused(here, secret)
    await bench.clock.sleep(KEEP)
    await refused(elsewhere, secret)


@virtually
async def test_a_purged_token_is_forgotten() -> None:
    bench, tokens, _, secret = await a_gate()
    await tokens.authenticate(secret)
    await bench.node.store.tokens.purge(ended_before=bench.clock.now() + 2 * HOUR, limit=1)
    await bench.clock.sleep(KEEP)
    await refused(tokens, secret)
    await refused(tokens, secret)


@virtually
async def test_whoever_tries_secrets_does_not_drive_out_those_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    bench, tokens, _, secret = await a_gate()
    await tokens.authenticate(secret)
    tried = [spell_secret(str(number), secret[-43:]) for number in range(1, 6)]
    for made_up in tried:
        await refused(tokens, made_up)
    bench.faults.inject("tokens.find", Fault.TIMEOUT, times=None)
    await tokens.authenticate(secret)
    await refused(tokens, tried[-1])
    with pytest.raises(StoreUnavailableError):  # the oldest is forgotten: no more are remembered than fit
        await tokens.authenticate(tried[0])


@virtually
async def test_a_use_is_noted_once_a_minute() -> None:
    bench, tokens, token, secret = await a_gate()
    running = asyncio.create_task(tokens.run())
    await tokens.authenticate(secret)
    await bench.clock.sleep(TOUCH_EVERY)
    assert await last_use(bench, token) == timedelta(0)
    for _ in range(int(USE_NOTED_EVERY / SECOND) - 10):
        await tokens.authenticate(secret)
        await bench.clock.sleep(SECOND)
    assert await last_use(bench, token) == timedelta(0)
    await bench.clock.sleep(10 * SECOND)
    await tokens.authenticate(secret)
    await bench.clock.sleep(TOUCH_EVERY)
    assert (await last_use(bench, token)) >= USE_NOTED_EVERY
    running.cancel()


@virtually
async def test_between_two_questions_a_use_that_was_noted_is_not_noted_again() -> None:
    bench, tokens, token, secret = await a_gate()
    await tokens.authenticate(secret)
    await tokens.touch()
    await bench.clock.sleep(SECOND)
    await tokens.authenticate(secret)
    await tokens.touch()
    assert await last_use(bench, token) == timedelta(0)


@virtually
async def test_a_use_that_the_store_did_not_take_is_told_later_and_nobody_is_kept_out() -> None:
    bench, tokens, token, secret = await a_gate()
    bench.faults.inject("tokens.touch", Fault.TIMEOUT)
    running = asyncio.create_task(tokens.run())
    await tokens.authenticate(secret)
    await bench.clock.sleep(TOUCH_EVERY)
    await tokens.authenticate(secret)
    await bench.clock.sleep(TOUCH_EVERY)
    assert bench.faults.pending == {}
    assert await last_use(bench, token) == timedelta(0)
    running.cancel()


@virtually
async def test_uses_are_told_in_batches_and_no_more_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TOUCHED", 2)
    monkeypatch.setattr(module, "MOST", 3)
    bench, tokens, _, _ = await a_gate()
    issued = [await issue(tokens) for _ in range(4)]
    for _, secret in issued:
        await tokens.authenticate(secret)
    await tokens.touch()
    uses = [await last_use(bench, token) for token, _ in issued]
    assert [use is not None for use in uses] == [True, True, True, False]


@virtually
async def test_who_made_and_who_revoked_a_token_is_recorded() -> None:
    bench, tokens, token, _ = await a_gate()
    await tokens.revoke(token.id, SHOP, actor=ADA)
    await bench.clock.sleep(SECOND)
    await tokens.revoke(token.id, SHOP, actor=ADA)  # it has ended already
    assert await actions(bench) == [("token.create", token.id), ("token.revoke", token.id)]
    [_, made] = await bench.node.store.audit.list_page(SHOP)
    assert (made.actor, made.address, made.detail) == ("ada", "192.0.2.7", "operator: deploy")


@virtually
async def test_another_tenants_token_does_not_exist() -> None:
    bench, tokens, token, secret = await a_gate()
    for token_id, tenant in ((token.id, DEFAULT_TENANT), ("7", SHOP)):
        with pytest.raises(NotFoundError, match=r"token .* does not exist"):
            await tokens.revoke(token_id, tenant, actor=ADA)
    await tokens.authenticate(secret)
    assert await actions(bench) == [("token.create", token.id)]


@virtually
async def test_tokens_are_listed_in_pages() -> None:
    _, tokens, first, _ = await a_gate()
    second, _ = await issue(tokens)
    await issue(tokens, tenant_id=DEFAULT_TENANT)
    assert await tokens.list(SHOP) == [first, second]
    assert await tokens.list(SHOP, limit=1) == [first]
    assert await tokens.list(SHOP, after=first.id) == [second]
    with pytest.raises(InvalidError, match="limit"):
        await tokens.list(SHOP, limit=0)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "two\nlines"}, "name"),
        ({"expires_in": timedelta(0)}, "expires_in_seconds"),
        ({"expires_in": timedelta(days=4000)}, "expires_in_seconds"),
    ],
)
@virtually
async def test_a_token_that_makes_no_sense_is_refused_and_nothing_is_kept(change: dict[str, Any], field: str) -> None:
    bench = await a_bench()
    tokens = Tokens(bench.node)
    with pytest.raises(InvalidError) as error:
        await issue(tokens, **change)
    assert error.value.field == field
    assert await tokens.list(SHOP) == []
    assert await actions(bench) == []
