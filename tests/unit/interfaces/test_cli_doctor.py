"""`rota doctor`, and the first token of a cluster."""

from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from rota.config.doctor import examine_network
from rota.config.load import Sources, load
from rota.interfaces.cli.main import run
from tests.unit.client.dial import problem
from tests.unit.interfaces.fake_api import CLUSTER, TOKEN, FakeApi

Printed = pytest.CaptureFixture[str]


def failures(printed: str) -> dict[str, str]:
    """What is not sound, with what to try."""
    lines = printed.splitlines()
    return {
        line.removeprefix("FAIL  ").partition(":")[0]: lines[place + 1].strip()
        for place, line in enumerate(lines)
        if line.startswith("FAIL")
    }


def test_a_store_without_its_schema_is_told_and_not_made(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /cluster", CLUSTER)
    assert run(["doctor"]) == 1
    assert failures(capsys.readouterr().out) == {"schema": "try: rota db upgrade"}
    assert not Path(".rota").exists()


def test_all_is_well(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /cluster", CLUSTER)
    assert run(["db", "upgrade"]) == run(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "ok    clock: the store's and this machine's agree" in printed
    assert "ok    coordinator: in memory" in printed
    assert "ok    server: answers, nodes 1" in printed


def test_a_server_of_other_settings_is_a_finding(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /cluster", {**CLUSTER, "store": "mysql", "coordinator": "redis"})
    assert run(["db", "upgrade"]) == 0
    assert run(["doctor"]) == 1
    assert failures(capsys.readouterr().out) == {"settings": "try: rota settings show --origin"}


def test_a_server_that_nobody_named_may_be_missing(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    monkeypatch.setattr("rota.interfaces.cli.connect.CONNECT_WITHIN", timedelta(0))
    api.on("GET /cluster", refuse)
    assert run(["db", "upgrade"]) == run(["doctor"]) == 0
    assert run(["doctor", "--url", "http://127.0.0.1:1"]) == 1
    assert list(failures(capsys.readouterr().out)) == ["server"]


def test_a_token_that_is_refused_and_mixed_releases_are_findings(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:8420")
    assert run(["db", "upgrade"]) == 0
    api.on("GET /cluster", problem(401, "unauthenticated"))
    assert run(["doctor"]) == 0
    assert "answers, and wants a token" in capsys.readouterr().out
    monkeypatch.setenv("ROTA_TOKEN", "rota_wrong")
    assert run(["doctor"]) == 1
    assert failures(capsys.readouterr().out) == {"server": "try: export ROTA_TOKEN=…"}
    api.on("GET /cluster", problem(403, "permission_denied"))
    assert run(["doctor"]) == 1
    capsys.readouterr()
    api.on("GET /cluster", {**CLUSTER, "version": "0.2.0"})
    assert run(["doctor"]) == 1
    assert failures(capsys.readouterr().out) == {"server": "try: pip install --upgrade rota"}


def test_a_store_that_is_away_is_a_finding(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /cluster", CLUSTER)
    url = "postgresql://rota:hunter2@127.0.0.1:1/rota"
    assert run(["doctor", "--set", f"store.url={url}", "--set", "coordinator.url=redis://127.0.0.1:1"]) == 1
    printed = capsys.readouterr().out
    assert set(failures(printed)) == {"store", "coordinator", "settings"}
    assert "hunter2" not in printed


def test_security_looks_at_files_tokens_and_the_network(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET /cluster", CLUSTER)
    Path("rota.yaml").write_text("api: {host: 127.0.0.1}", "utf-8")
    Path("rota.yaml").chmod(0o644)
    assert run(["db", "upgrade"]) == 0
    Path(".rota/rota.db").chmod(0o600)
    assert run(["token", "create", "ci", "--direct", "--expires-in", "never", "-o", "name"]) == 0
    token_id = capsys.readouterr().out.splitlines()[-1]
    monkeypatch.setenv("ROTA_URL", "http://rota.example")
    assert run(["doctor", "--security"]) == 1
    assert failures(capsys.readouterr().out) == {
        "rota.yaml": "try: chmod 600 rota.yaml",
        "tokens": f"try: rota token revoke {token_id}",
        "ROTA_URL": "try: ROTA_URL=https://rota.example",
    }


def test_a_redis_elsewhere_without_tls_is_a_finding() -> None:
    flags = {"coordinator.url": "redis://cache.example:6379", "store.url": "mysql://db.example/rota"}
    found = {item.subject: item for item in examine_network(load(Sources(flags=flags)).settings)}
    assert not found["coordinator.url"].is_sound
    assert found["store.url"].is_sound
    assert found["api.host"].is_sound


def test_listening_elsewhere_is_sound_with_tls_alone() -> None:
    for more, is_sound in (({}, False), ({"api.behind_tls_proxy": "true"}, True)):
        loaded = load(Sources(flags={"api.host": "10.0.0.1", **more}))
        found = {item.subject: item for item in examine_network(loaded.settings)}
        assert found["api.host"].is_sound is is_sound


def test_the_first_token_comes_from_the_store(api: FakeApi, capsys: Printed) -> None:
    assert run(["db", "upgrade"]) == 0
    capsys.readouterr()
    assert run(["token", "create", "first", "--role", "admin", "--expires-in", "1d", "--direct"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("rota_")
    assert "(first, admin) is good until 2" in printed.err
    assert printed.err.splitlines()[-1] == "to use it: export ROTA_TOKEN=…"
    assert not api.sent


def test_on_a_terminal_the_next_line_can_be_typed_as_it_is(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("POST /tokens", {"token": TOKEN, "secret": "rota_5_x"})
    monkeypatch.setattr("rota.interfaces.cli.token.is_terminal", lambda: True)
    assert run(["token", "create", "ci"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "to use it: export ROTA_TOKEN=rota_5_x"


def test_a_store_that_is_not_there_is_not_made_for_a_token(api: FakeApi, capsys: Printed) -> None:
    assert run(["token", "create", "first", "--direct"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("error: there is no store at .rota/rota.db yet")
    assert said[-1] == "try: rota server"
    assert not Path(".rota").exists()


def test_a_token_of_a_store_in_memory_would_be_lost(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_STORE__URL", "memory://")
    assert run(["token", "create", "first", "--direct"]) == 2
    assert "ends with its process" in capsys.readouterr().err


def test_a_life_that_is_too_short_is_refused(api: FakeApi) -> None:
    assert run(["db", "upgrade"]) == 0
    assert run(["token", "create", "first", "--direct", "--expires-in", "0s"]) == 2
