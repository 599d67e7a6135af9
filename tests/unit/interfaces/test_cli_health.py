"""`rota health`: what a container asks of the server in it."""

import pytest

from rota.interfaces.cli.main import run
from tests.unit.client.dial import problem
from tests.unit.interfaces.fake_api import FakeApi

Printed = pytest.CaptureFixture[str]


def test_a_server_that_is_ready_says_so_without_a_token(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROTA_TOKEN", raising=False)
    api.on("GET /readyz", {"status": "ready"})
    assert run(["health"]) == 0
    assert capsys.readouterr().out == "http://127.0.0.1:8420 is ready\n"
    assert "authorization" not in api.sent[0].headers


def test_a_server_without_its_store_is_not_ready(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /readyz", problem(503, "unavailable", detail="not ready"))
    assert run(["health"]) == 5
    assert capsys.readouterr().err.startswith("error: not ready")
