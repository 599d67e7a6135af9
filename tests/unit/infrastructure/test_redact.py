"""Secrets are covered wherever they stand, and nothing else is."""

from typing import Any

import pytest

from rota.infrastructure.telemetry.redact import redact, redact_named, redact_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mysql://root:hunter2@host/db", "mysql://root:***@host/db"),
        ("redis://:hunter2@host:6379/0", "redis://:***@host:6379/0"),
        ("postgresql+asyncpg://u:p@ss@host/db", "postgresql+asyncpg://u:***@host/db"),
        ("mysql://u:with/slash@host/db", "mysql://u:***@host/db"),
        ("cannot reach redis://:a@h and mysql://u:b@h2", "cannot reach redis://:***@h and mysql://u:***@h2"),
        ("https://h/x?user=me&access_token=abc&y=1", "https://h/x?user=me&access_token=***&y=1"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer ***"),
        ("use rota_0123456789abcdefghijABCDEF now", "use rota_*** now"),
    ],
)
def test_credentials_in_a_text_are_covered(text: str, shown: str) -> None:
    assert redact_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "http://host:8420/path?q=me@example.org",
        "http://host:8420/path",
        "sqlite:///.rota/rota.db",
        "me@example.org",
        "rota_tasks_total",
        "12:30 at a@b",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "name", ["password", "db_passwd", "API_KEY", "apikey", "token", "client_secret", "Authorization"]
)
def test_a_value_named_like_a_secret_is_covered(name: str) -> None:
    assert redact_named(name, "plain") == "***"
    assert redact({"deep": [{name: {"x": "plain"}}]}) == {"deep": [{name: "***"}]}


@pytest.mark.parametrize(("name", "value"), [("token_count", 5), ("has_token", True), ("token", None), ("load", 3)])
def test_numbers_and_absence_are_no_secrets(name: str, value: Any) -> None:
    assert redact_named(name, value) == value


def test_what_is_nested_without_end_is_covered_unseen() -> None:
    endless: list[Any] = []
    endless.append(endless)

    assert "***" in str(redact(endless))


def test_a_hostile_text_takes_no_time_to_speak_of() -> None:
    for part in ("a.", "a://:", "?token", "x://u:", "rota_"):
        assert len(redact_text(part * 20_000)) > 0
