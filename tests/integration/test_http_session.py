"""The console over HTTP: logging in, the session, and the files."""

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie

import httpx2
import pytest

from rota.application.sessions import OVER
from rota.domain.access import Role, find_token_id
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.session import open_session
from rota.interfaces.http import console
from rota.interfaces.http.admission import FOREIGN
from rota.interfaces.http.app import build_app
from rota.interfaces.http.one_time import MOST_CODES, OneTimeCodes
from tests.support.api import Api, an_api

MARK = {"X-Rota-Console": "1"}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api() as made:
        yield made


@asynccontextmanager
async def a_browser(api: Api, role: Role = Role.ADMIN) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody who has logged in."""
    async with httpx2.AsyncClient(base_url=api.url, headers=MARK, timeout=60) as browser:
        answer = await browser.post("/login", json={"token": await api.secret(role)})
        assert answer.status_code == 200
        yield browser


async def test_whoever_shows_a_token_once_is_let_in_by_the_session_from_then_on(api: Api) -> None:
    async with a_browser(api, Role.OPERATOR) as browser:
        who = (await browser.get("/session")).json()
        assert (who["role"], who["tenant"], who["name"]) == ("operator", "default", "operator of default")
        assert (await browser.get("/api/v1/tasks")).status_code == 200
        assert (await browser.post("/api/v1/tasks", json={"type": "email"})).status_code == 201
        refused = await browser.get("/api/v1/audit")
        assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")


async def test_the_cookie_is_closed_to_scripts_and_other_sites_and_holds_no_secret(api: Api) -> None:
    secret = await api.secret()
    async with api.nobody() as nobody:
        answer = await nobody.post("/login", json={"token": secret}, headers=MARK)
    (cookie,) = SimpleCookie(answer.headers["set-cookie"]).values()
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", "")
    assert cookie["max-age"] == "43200"
    assert not cookie["secure"]
    assert secret.split("_", 2)[2] not in answer.headers["set-cookie"]
    assert "secret" not in answer.json()


async def test_behind_tls_the_cookie_goes_nowhere_else() -> None:
    async with an_api(api={"behind_tls_proxy": True}) as api, api.nobody() as nobody:
        answer = await nobody.post("/login", json={"token": await api.secret()}, headers=MARK)
        assert "; Secure" in answer.headers["set-cookie"]


async def test_a_session_counts_only_with_the_mark_that_other_sites_cannot_send(api: Api) -> None:
    async with a_browser(api) as browser:
        del browser.headers["X-Rota-Console"]
        for method, path in (("GET", "/api/v1/tasks"), ("POST", "/api/v1/tasks"), ("DELETE", "/session")):
            refused = await browser.request(method, path)
            assert (refused.status_code, refused.json()["detail"]) == (401, FOREIGN)
        refused = await browser.post("/login", json={"token": await api.secret()})
        assert (refused.status_code, refused.json()["detail"]) == (401, FOREIGN)


async def test_a_token_in_the_header_wins_over_the_session(api: Api) -> None:
    async with a_browser(api, Role.VIEWER) as browser:
        bearer = {"Authorization": f"Bearer {await api.secret(Role.ADMIN)}"}
        assert (await browser.get("/api/v1/audit", headers=bearer)).status_code == 200
        wrong = {"Authorization": "Bearer rota_1_x"}
        assert (await browser.get("/api/v1/tasks", headers=wrong)).status_code == 401


async def test_a_session_ends_with_its_token(api: Api) -> None:
    async with a_browser(api) as browser, a_browser(api, Role.VIEWER) as other:
        token_id = find_token_id(await api.secret(Role.VIEWER)) or ""
        assert (await browser.delete(f"/api/v1/tokens/{token_id}")).status_code == 204
        assert (await other.get("/api/v1/tasks")).status_code == 401
        assert (await browser.get("/api/v1/tasks")).status_code == 200


async def test_forged_and_old_sessions_are_refused(api: Api) -> None:
    sessions = api.server.state.sessions
    old = open_session(api.services.node.callback_key, "17", at=api.services.node.time.now().replace(year=2020)).text
    async with api.nobody() as nobody:
        for text in (old, "17.9999999999." + "A" * 43, "", "x", await api.secret()):
            headers = {**MARK, "Cookie": f"other=1; {sessions.cookie}={text}"}
            refused = await nobody.get("/api/v1/tasks", headers=headers)
            assert (refused.status_code, refused.json()["detail"]) == (401, OVER), text


async def test_whoever_guesses_sessions_is_told_to_slow_down() -> None:
    async with an_api(api={"rate": 1.0}) as api, api.nobody() as nobody:
        headers = {**MARK, "Cookie": f"{api.server.state.sessions.cookie}=17.9999999999.{'A' * 43}"}
        seen = [(await nobody.get("/api/v1/tasks", headers=headers)).status_code for _ in range(5)]
        assert seen[0] == 401
        assert 429 in seen
        seen = [(await nobody.post("/login", json={"code": "x"}, headers=MARK)).status_code for _ in range(5)]
        assert 429 in seen


async def test_a_session_of_one_node_is_good_on_another(api: Api) -> None:
    principal = await api.services.tokens.authenticate(await api.secret())
    session = api.server.state.sessions.open(principal)
    again = build_app(api.server.state, api.server.limiter, hosts=None, is_proxied=False)
    transport = httpx2.ASGITransport(app=again)
    headers = {**MARK, "Cookie": f"{api.server.state.sessions.cookie}={session.text}"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://other", headers=headers) as browser:
        assert (await browser.get("/api/v1/tasks")).status_code == 200


async def test_logging_out_forgets_the_session(api: Api) -> None:
    async with a_browser(api) as browser:
        assert (await browser.delete("/session")).status_code == 204
        assert (await browser.get("/session")).status_code == 401


async def test_a_program_with_a_token_has_no_session(api: Api) -> None:
    async with api.nobody() as nobody:
        headers = {"Authorization": f"Bearer {await api.secret()}"}
        assert (await nobody.get("/session", headers=headers)).status_code == 404


@pytest.mark.parametrize("body", [{}, {"token": "a", "code": "b"}, {"token": ""}, {"user": "x"}, []])
async def test_logging_in_needs_one_proof(api: Api, body: object) -> None:
    async with api.nobody() as nobody:
        assert (await nobody.post("/login", json=body, headers=MARK)).status_code == 422


async def test_logging_in_with_what_is_no_token_or_too_much_is_refused(api: Api) -> None:
    async with api.nobody() as nobody:
        assert (await nobody.post("/login", json={"token": "rota_1_x"}, headers=MARK)).status_code == 401
        assert (await nobody.post("/login", json={"token": "x" * 5000}, headers=MARK)).status_code == 413
        form = {**MARK, "Content-Type": "application/x-www-form-urlencoded"}
        assert (await nobody.post("/login", content="token=x", headers=form)).status_code == 415
        assert (await nobody.get("/login", headers=MARK)).status_code == 405


async def test_the_code_of_a_link_is_good_once(api: Api) -> None:
    token_id = find_token_id(await api.secret(Role.OPERATOR)) or ""
    code = api.server.state.codes.make(token_id)
    async with api.nobody() as nobody:
        first = await nobody.post("/login", json={"code": code}, headers=MARK)
        assert (first.status_code, first.json()["role"]) == (200, "operator")
        second = await nobody.post("/login", json={"code": code}, headers=MARK)
        assert (second.status_code, second.json()["code"]) == (401, "unauthenticated")


async def test_the_code_of_a_token_that_has_ended_opens_nothing(api: Api) -> None:
    token_id = find_token_id(await api.secret(Role.OPERATOR)) or ""
    code = api.server.state.codes.make(token_id)
    await api.services.tokens.revoke(token_id, DEFAULT_TENANT, actor=None)
    async with api.nobody() as nobody:
        assert (await nobody.post("/login", json={"code": code}, headers=MARK)).status_code == 401


def test_codes_that_nobody_uses_are_forgotten() -> None:
    codes = OneTimeCodes()
    made = [codes.make(str(number)) for number in range(MOST_CODES + 1)]
    assert codes.redeem(made[0]) is None
    assert codes.redeem("ü") is None
    assert codes.redeem(made[1]) == "1"


async def test_without_a_console_the_page_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "FOLDER", "no_such_folder")
    async with an_api() as api, api.nobody() as nobody:
        page = await nobody.get("/")
        assert "make console" in page.text
        assert "unsafe" not in page.headers["content-security-policy"]


async def test_files_are_kept_for_ever_and_the_page_never() -> None:
    if not console.is_built():
        pytest.skip("the console is not built: make console")
    (script,) = (
        asset for asset in console.list_assets() if asset.path.startswith("/assets/index-") and ".js" in asset.path
    )
    async with an_api() as api, api.nobody() as nobody:
        pages = [await nobody.get("/") for _ in range(2)]
        assert [page.headers["cache-control"] for page in pages] == ["no-store", "no-store"]
        policies = [page.headers["content-security-policy"] for page in pages]
        assert policies[0] != policies[1]
        for page, policy in zip(pages, policies, strict=True):
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
            nonce = policy.partition("'nonce-")[2].partition("'")[0]
            assert f'content="{nonce}"' in page.text
        plain = await nobody.get(script.path, headers={"Accept-Encoding": "identity"})
        packed = await nobody.get(script.path, headers={"Accept-Encoding": "gzip"})
        assert plain.content == packed.content == gzip.decompress(script.packed)
        assert "immutable" in plain.headers["cache-control"]
        assert plain.headers["content-type"].startswith("text/javascript")
        assert (await nobody.get("/assets/nothing.js")).status_code == 401
        assert "max-age" in (await nobody.get("/favicon.svg")).headers["cache-control"]
