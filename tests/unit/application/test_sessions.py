"""What a browser is let in by, and for how long."""

import pytest

from rota.application.sessions import OVER, Sessions
from rota.application.tokens import KEEP, Tokens
from rota.domain.access import AccessToken, Role
from rota.domain.errors import UnauthenticatedError
from rota.domain.ids import TenantId
from rota.domain.session import SESSION_LIFE, Session
from tests.support.builders import SECOND
from tests.support.virtual import Bench, a_bench, virtually

SHOP = TenantId("shop")


async def a_login() -> tuple[Bench, Sessions, Session, AccessToken]:
    """Somebody who has shown the secret of a token once."""
    bench = await a_bench()
    tokens = Tokens(bench.node)
    token, secret = await tokens.issue(tenant_id=SHOP, name="ada", role=Role.VIEWER, expires_in=None, actor=None)
    sessions = Sessions(bench.node, tokens)
    return bench, sessions, sessions.open(await sessions.authenticate(secret)), token


async def refused(sessions: Sessions, proof: str) -> str:
    with pytest.raises(UnauthenticatedError) as error:
        await sessions.authenticate(proof)
    return str(error.value)


@virtually
async def test_a_session_stands_for_its_token() -> None:
    _, sessions, session, token = await a_login()
    principal = await sessions.authenticate(session.text)
    assert (principal.token_id, principal.tenant_id, principal.role) == (token.id, SHOP, Role.VIEWER)


@virtually
async def test_a_session_ends_by_itself() -> None:
    bench, sessions, session, _ = await a_login()
    await bench.node.clock.sleep(SESSION_LIFE)
    assert await refused(sessions, session.text) == OVER


@virtually
async def test_a_session_ends_with_its_token() -> None:
    bench, sessions, session, token = await a_login()
    await Tokens(bench.node).revoke(token.id, SHOP, actor=None)
    await bench.node.clock.sleep(KEEP + SECOND)
    await refused(sessions, session.text)


@virtually
@pytest.mark.parametrize("proof", ["", "nothing", "17.99999999999." + 43 * "A"])
async def test_what_is_no_session_lets_nobody_in(proof: str) -> None:
    _, sessions, _, _ = await a_login()
    assert await refused(sessions, proof) == OVER
