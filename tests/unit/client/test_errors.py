"""Problem documents become the errors that an embedded program would get."""

import httpx2
import pytest

import rota
from rota.domain.errors import (
    ConfigError,
    ConflictError,
    DeniedError,
    InvalidError,
    NotFoundError,
    RotaError,
    UnauthenticatedError,
    UnavailableError,
)
from tests.unit.client.dial import Dial, problem


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "unauthenticated", UnauthenticatedError),
        (403, "permission_denied", DeniedError),
        (404, "task_not_found", NotFoundError),
        (409, "illegal_transition", ConflictError),
        (413, "too_large", InvalidError),
        (422, "invalid_request", InvalidError),
        (500, "internal", RotaError),
    ],
)
def test_each_status_has_its_error_with_the_servers_code_and_words(
    dial: Dial, status: int, code: str, kind: type[RotaError]
) -> None:
    with pytest.raises(kind) as raised:
        dial.ask(lambda client: client.tasks.get("7"), problem(status, code, detail="because of the moon"))
    assert raised.value.code == code
    assert "because of the moon" in str(raised.value)


def test_every_bad_field_is_told(dial: Dial) -> None:
    errors = [{"field": "type", "problem": "is empty"}, {"field": "payload", "problem": "is large"}]
    with pytest.raises(InvalidError) as raised:
        dial.ask(lambda client: client.submit("email"), problem(422, "invalid_request", detail="two", errors=errors))
    assert [(part.field, part.problem) for part in raised.value.parts] == [
        ("type", "is empty"),
        ("payload", "is large"),
    ]
    assert str(raised.value) == "type: is empty\npayload: is large"


@pytest.mark.parametrize(("given", "found"), [({"task_id": "711"}, 711), ({}, None), ({"task_id": "x"}, None)])
def test_a_task_that_is_in_the_way_is_named(dial: Dial, given: dict[str, str], found: int | None) -> None:
    with pytest.raises(ConflictError) as raised:
        dial.ask(lambda client: client.submit("email"), problem(409, "idempotency_mismatch", **given))
    assert raised.value.task_id == found


def test_the_role_that_is_needed_is_named(dial: Dial) -> None:
    with pytest.raises(DeniedError) as raised:
        dial.ask(lambda client: client.stats(), problem(403, "permission_denied", needed_role="admin"))
    assert raised.value.needed == "admin"


def test_what_was_not_found_is_named(dial: Dial) -> None:
    with pytest.raises(NotFoundError) as raised:
        dial.ask(lambda client: client.configs.get("email"), problem(404, "task_config_not_found"))
    assert raised.value.kind == "task config"


def test_an_answer_that_is_not_ours_is_told_as_such(dial: Dial) -> None:
    with pytest.raises(UnavailableError, match="is this a Rota server"):
        dial.ask(lambda client: client.stats(), httpx2.Response(200, text="<html>"))
    with pytest.raises(InvalidError, match="is this a Rota server"):
        dial.ask(lambda client: client.stats(), httpx2.Response(405, text="<html>"))
    with pytest.raises(NotFoundError, match="is this a Rota server"):
        dial.ask(lambda client: client.stats(), httpx2.Response(404, text="<html>"))
    with pytest.raises(UnavailableError, match="answered 502"):
        dial.ask(lambda client: client.cluster(), *[httpx2.Response(502, text="bad gateway")] * 30, timeout="1s")


def test_an_endless_answer_is_cut_off(dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.client.http.LARGEST_ANSWER", 10)
    with pytest.raises(UnavailableError, match="more than 10 bytes"):
        dial.ask(lambda client: client.stats(), httpx2.Response(200, text="x" * 11))


@pytest.mark.parametrize("url", ["rota.example", "ftp://rota", "http://", "http://a:99999", "http://u:p@rota"])
def test_a_url_that_is_none_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigError, match="is not the URL of a server; try: rota cluster --url http://127"):
        rota.Client(url)


@pytest.mark.parametrize("url", ["https://rota.example/base/api/v1", "https://rota.example/base/api/v1/"])
def test_the_url_of_the_api_is_as_good_as_that_of_its_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_URL", url)
    for client in (rota.Client(), rota.Client(url)):
        with client:
            assert client._wire.place.url == "https://rota.example/base"


def test_a_token_that_cannot_be_a_header_is_refused() -> None:
    for token in ("rota_ä", "rota_a\r\nX: y"):
        with pytest.raises(ConfigError, match="the token has characters"):
            rota.Client(token=token)


def test_url_and_token_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_URL", "https://rota.example/base/")
    monkeypatch.setenv("ROTA_TOKEN", "rota_secret\n")
    with rota.Client() as client:
        place = client._wire.place
    assert (place.url, place.headers["Authorization"]) == ("https://rota.example/base", "Bearer rota_secret")
    assert "secret" not in repr(place)


def test_bad_arguments_are_refused_before_anything_is_sent(dial: Dial) -> None:
    for bad in (
        lambda client: client.tasks.get(""),
        lambda client: client.tasks.list(status="DONE"),
        lambda client: client.tasks.list(page_size=0),
        lambda client: client.submit("email", {"at": object()}),
        lambda client: client.submit("email", delay="soon"),
        lambda client: client.configs.put("email", {"timeout": 5}),
        lambda client: client.configs.put("email", {"type": "other"}),
    ):
        with pytest.raises(InvalidError):
            dial.ask(bad)
    assert dial.sent == []
