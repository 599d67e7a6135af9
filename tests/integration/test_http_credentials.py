"""Secrets and credentials of the HTTP executor: to whom they go, and to whom they do not."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from rota.domain.attempt import Failed, Succeeded
from rota.infrastructure.executors.http.settings import SecretSettings, TargetSettings
from rota.testing.values import replace
from tests.support.certificates import make_certificate
from tests.support.http_jobs import an_http_executor, an_http_job, run
from tests.support.http_service import Service, a_service, code_of, settings_with

SECRET, OTHER = "whsec_" + "A" * 43 + "=", "whsec_" + "B" * 43 + "="


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with a_service() as started:
        yield started


@pytest.mark.parametrize("secret", [SECRET, OTHER])
async def test_requests_are_signed_with_every_secret_of_a_rotation(service: Service, secret: str) -> None:
    settings = settings_with(secrets={"crm": SecretSettings(keys=(SECRET, OTHER), hosts=("localhost",))})
    async with an_http_executor(settings) as executor:
        await run(executor, an_http_job(service.url, secret="crm"))

    (seen,) = service.seen
    assert seen.headers["webhook-id"] == seen.headers["idempotency-key"] == "1"
    assert Webhook(secret).verify(seen.body, seen.headers)["task_id"] == "1"


async def test_the_default_secret_signs_what_names_none(service: Service) -> None:
    secret = SecretSettings(keys=(SECRET,), hosts=("localhost",))
    async with an_http_executor(settings_with(secrets={"default": secret})) as executor:
        await run(executor, an_http_job(service.url))

    Webhook(SECRET).verify(service.seen[0].body, service.seen[0].headers)


async def test_a_secret_signs_for_its_own_hosts_only(service: Service) -> None:
    secret = SecretSettings(keys=(SECRET,), hosts=("crm.internal", "localhost:1"))
    async with an_http_executor(settings_with(secrets={"default": secret, "crm": secret})) as executor:
        usual = await run(executor, an_http_job(service.url))
        named = await run(executor, an_http_job(service.url, secret="crm"))

    assert isinstance(usual, Succeeded)
    assert code_of(named) == ("bad_config", False)
    (seen,) = service.seen
    assert "webhook-signature" not in seen.headers


@pytest.mark.parametrize(("hosts", "is_told"), [("crm.internal", True), ("localhost", False)])
async def test_a_request_that_went_unsigned_is_told_where_the_service_wants_to_know_who_calls(
    service: Service, hosts: str, is_told: bool
) -> None:
    async def refuse() -> web.StreamResponse:
        return web.Response(status=401)

    service.answer = refuse
    secret = SecretSettings(keys=(SECRET,), hosts=(hosts,))
    async with an_http_executor(settings_with(secrets={"default": secret})) as executor:
        outcome = await run(executor, an_http_job(service.url))

    assert isinstance(outcome, Failed)
    assert outcome.error.code == "http_401"
    hint = "this request was not signed: the config names no secret, and http.secrets of this worker's settings has no "
    assert (f"{hint}default for localhost" in outcome.error.message) is is_told


async def test_a_secret_that_the_worker_does_not_have_sends_nothing(service: Service) -> None:
    async with an_http_executor() as executor:
        outcome = await run(executor, an_http_job(service.url, secret="unknown"))

    assert code_of(outcome) == ("bad_config", False)
    assert not service.seen


async def test_a_target_brings_its_headers_and_certificates_to_its_own_hosts_only(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path)
    theirs, its_key = make_certificate(tmp_path, "client")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(theirs))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(cert, key)
    target = TargetSettings(
        hosts=("localhost",),
        ca=str(cert),
        cert=str(theirs),
        key=str(its_key),
        secret_headers={"Authorization": "Bearer abc"},
    )
    async with a_service(context) as service, an_http_executor(settings_with(targets={"crm": target})) as executor:
        ours = await run(executor, an_http_job(service.url, target="crm"))
        nobodys = await run(executor, an_http_job(service.url))
        elsewhere = await run(executor, an_http_job(service.url.replace("localhost", "127.0.0.1"), target="crm"))
        unknown = await run(executor, an_http_job(service.url, target="erp"))

    assert isinstance(ours, Succeeded)
    assert [seen.headers["authorization"] for seen in service.seen] == ["Bearer abc"]
    assert code_of(nobodys) == ("tls_failed", True)
    assert code_of(elsewhere) == code_of(unknown) == ("bad_config", False)


async def test_secret_headers_are_not_sent_in_the_clear_unless_the_settings_say_so(service: Service) -> None:
    port = int(service.url.split(":")[2].split("/")[0])
    closed = TargetSettings(hosts=("localhost",), secret_headers={"X-Key": "abc"})
    other_port = replace(closed, hosts=("localhost:1",), allow_http=True)
    opened = replace(closed, hosts=(f"localhost:{port}",), allow_http=True)
    targets = {"closed": closed, "other": other_port, "opened": opened}
    async with an_http_executor(settings_with(targets=targets)) as executor:
        codes = [code_of(await run(executor, an_http_job(service.url, target=name))) for name in ("closed", "other")]
        done = await run(executor, an_http_job(service.url, target="opened"))

    assert codes == [("bad_config", False)] * 2
    assert isinstance(done, Succeeded)
    assert [seen.headers["x-key"] for seen in service.seen] == ["abc"]


async def test_a_header_replaces_the_one_of_its_name_in_any_case(service: Service) -> None:
    target = TargetSettings(hosts=("localhost",), secret_headers={"X-Key": "ours"}, allow_http=True)
    headers = {"accept": "text/plain", "user-agent": "mine", "x-key": "theirs"}
    async with an_http_executor(settings_with(targets={"crm": target})) as executor:
        await run(executor, an_http_job(service.url, target="crm", headers=headers))

    (seen,) = service.seen
    assert [seen.all[name] for name in ("accept", "user-agent", "x-key")] == [["text/plain"], ["mine"], ["ours"]]


async def test_files_that_cannot_be_used_fail_the_calls_that_need_them_and_no_others(
    service: Service, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    target = TargetSettings(hosts=("localhost",), ca=str(broken))
    async with an_http_executor(settings_with(targets={"broken": target})) as executor:
        theirs = await run(executor, an_http_job(service.url, target="broken"))
        others = await run(executor, an_http_job(service.url))

    assert code_of(theirs) == ("bad_config", False)
    assert isinstance(others, Succeeded)
