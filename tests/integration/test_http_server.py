"""The server itself: where it listens, what it refuses to start with, its probes, and how it stops."""

import asyncio
import shlex
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from rota.config.exposure import check_exposure, is_loopback, own_url
from rota.config.settings import ApiSettings
from rota.domain.errors import ConfigError, StoreUnavailableError
from rota.interfaces.cli.main import run
from rota.interfaces.http import probes
from rota.interfaces.http.server import listen
from tests.support.api import Api, an_api
from tests.support.certificates import make_certificate


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api() as made:
        yield made


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])
def test_loopback_is_safe_as_it_is(host: str) -> None:
    assert is_loopback(host)
    check_exposure(ApiSettings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "rota.example.com"])  # noqa: S104 what is refused
def test_other_addresses_need_tls_or_a_proxy_that_does_it(host: str) -> None:
    with pytest.raises(ConfigError, match=r"api\.behind_tls_proxy: true"):
        check_exposure(ApiSettings(host=host))
    check_exposure(ApiSettings(host=host, behind_tls_proxy=True))
    check_exposure(ApiSettings(host=host, tls_cert="a.pem", tls_key="b.pem"))


@pytest.mark.parametrize(
    ("api", "url"),
    [
        (ApiSettings(), "http://127.0.0.1:8420"),
        (ApiSettings(host="::1", port=1), "http://[::1]:1"),
        (ApiSettings(host="rota.example.com", tls_cert="a.pem"), "https://rota.example.com:8420"),
        (ApiSettings(host="0.0.0.0"), f"http://{socket.gethostname()}:8420"),  # noqa: S104 what it is known by
        (ApiSettings(port=0), ""),
    ],
)
def test_a_worker_knows_the_api_by_its_settings(api: ApiSettings, url: str) -> None:
    assert own_url(api) == url


@pytest.mark.parametrize("half", ["tls_cert", "tls_key"])
def test_half_of_tls_is_none(half: str) -> None:
    with pytest.raises(ConfigError, match="needs a certificate and its key"):
        check_exposure(ApiSettings(**{half: "a.pem"}))  # type: ignore[arg-type]  # one of the two texts


def test_an_unsafe_address_is_refused_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["server", "--set", "store.url=memory://", "--set", "api.host=0.0.0.0"]) == 2
    told = capsys.readouterr().err
    assert "can be reached from other machines" in told
    assert "; set api.tls_cert" in told
    assert told.splitlines()[-1] == "try: rota settings show --origin --set store.url=memory:// --set api.host=0.0.0.0"


def test_a_port_that_is_taken_is_told_with_what_to_try(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = [
            "--set",
            "store.url=memory://",
            "--set",
            f"api.port={port}",
            "--set",
            "api.grpc_port=0",
            "--set",
            "log.level=error",
        ]
        assert run(["server", *flags]) == 2
    told = capsys.readouterr().err.splitlines()
    assert f"error: port {port} of 127.0.0.1 is in use" in told
    line, _, other = told[-1].rpartition("=")
    del flags[2:4]  # the port that is taken
    assert line == f"try: {shlex.join(['rota', 'server', *flags])} --set api.port"
    assert int(other) > port


def test_an_address_that_is_not_ours_is_told_so() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen at 192\.0\.2\.1"):
        listen("192.0.2.1", 0)
    with pytest.raises(ConfigError, match="is no address of this machine"):
        listen("no.such.host.invalid", 0)


def test_every_address_of_a_name_has_the_same_port() -> None:
    sockets = listen("localhost", 0)
    try:
        assert len({made.getsockname()[1] for made in sockets}) == 1
    finally:
        for made in sockets:
            made.close()


async def test_it_is_alive_and_ready(api: Api) -> None:
    async with api.nobody() as nobody:
        assert (await nobody.get("/livez")).json() == {"status": "alive"}
        assert (await nobody.get("/readyz")).json() == {"status": "ready"}


async def test_it_is_not_ready_without_its_store_and_alive_all_the_same(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def fail(_: object) -> None:
        nonlocal asked
        asked += 1
        raise StoreUnavailableError("away")

    monkeypatch.setattr(type(api.services.node.store.tasks), "now", fail)
    async with api.nobody() as nobody:
        answers = [await nobody.get("/readyz") for _ in range(5)]
        assert {answer.status_code for answer in answers} == {503}
        assert answers[0].headers["retry-after"]
        assert asked < 5, "asking often costs the store nothing"
        assert (await nobody.get("/livez")).status_code == 200


async def test_a_store_that_says_nothing_is_not_waited_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import timedelta

    async def hang(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(probes, "PATIENCE", timedelta(milliseconds=50))
    monkeypatch.setattr(type(api.services.node.store.tasks), "now", hang)
    async with api.nobody() as nobody:
        assert (await nobody.get("/readyz")).status_code == 503


async def test_a_store_that_is_away_is_told_as_such(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise StoreUnavailableError("the store is away")

    monkeypatch.setattr(type(api.services.node.store.tasks), "add", fail)
    async with api.client() as http:
        answer = await http.post("/tasks", json={"type": "email"})
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "1"


async def test_the_figures_of_the_process_are_for_whoever_has_a_token(api: Api) -> None:
    async with api.client() as http:
        await http.get("/tasks")
        answer = await http.get(f"{api.url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'rota_http_requests_total{operation="list_tasks",status="200"} 1.0' in answer.text


async def test_a_process_without_figures_says_so() -> None:
    async with an_api(metrics={"collector": "none"}) as api, api.client() as http:
        assert (await http.get(f"{api.url}/metrics")).status_code == 404


async def test_a_request_under_way_is_finished_and_no_other_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    async with an_api() as api, api.client() as http:
        find = type(api.services.node.store.tasks).count_by_status

        async def slow(*arguments: object, **named: object) -> object:
            begun.set()
            await go_on.wait()
            return await find(*arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(type(api.services.node.store.tasks), "count_by_status", slow)
        asked = asyncio.create_task(http.get("/stats"))
        await begun.wait()
        async with api.nobody() as nobody, asyncio.timeout(60):
            api.built.roles.stop()
            with pytest.raises(httpx2.TransportError):
                while True:
                    assert (await nobody.get("/readyz", headers={"Connection": "close"})).status_code == 503
        go_on.set()
        assert (await asked).status_code == 200


async def test_tls_is_served_with_a_certificate(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path)
    async with an_api(api={"tls_cert": str(cert), "tls_key": str(key)}) as api:
        assert api.url.startswith("https://")
        trust = ssl.create_default_context(cafile=str(cert))
        async with httpx2.AsyncClient(verify=trust) as nobody:
            answer = await nobody.get(f"{api.url}/livez")
    assert answer.status_code == 200
    assert "max-age" in answer.headers["strict-transport-security"]


async def test_a_certificate_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    with pytest.raises(ConfigError, match=r"api\.tls_cert or api\.tls_key cannot be used"):
        async with an_api(api={"tls_cert": str(tmp_path / "bad.pem"), "tls_key": str(tmp_path / "bad.pem")}):
            pass
