"""Which server a command asks, and what it shows it."""

from pathlib import Path

import pytest

from rota.interfaces.cli.connect import choose_place


@pytest.mark.parametrize(
    ("url", "token"), [("http://127.0.0.1:8420", "rota_1_x"), (None, "rota_1_x"), ("https://rota.example.com", "")]
)
def test_the_token_of_a_folder_is_shown_to_servers_of_this_machine_alone(
    url: str | None, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ROTA_TOKEN", "ROTA_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    Path(".rota").mkdir()
    Path(".rota/token").write_text("rota_1_x", "utf-8")
    assert choose_place(url, timeout="1s").token == token


def test_a_token_in_the_environment_is_for_any_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_TOKEN", "rota_2_y")
    assert choose_place("https://rota.example.com", timeout="1s").token == "rota_2_y"
