"""Tokens, and what their roles allow."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from rota.domain.access import (
    Principal,
    Role,
    check_token_name,
    digest_of,
    find_token_id,
    parse_role,
    spell_secret,
)
from rota.domain.errors import DeniedError, InvalidError
from rota.domain.ids import DEFAULT_TENANT
from tests.support.builders import NOW, SECOND, a_token

CHANCE = "aB3_-" * 8 + "xyz"
SECRET = spell_secret("311840962875392001", CHANCE)
VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN


@pytest.mark.parametrize(
    ("role", "covered"), [(VIEWER, {VIEWER}), (OPERATOR, {VIEWER, OPERATOR}), (ADMIN, {VIEWER, OPERATOR, ADMIN})]
)
def test_a_role_covers_itself_and_those_before_it(role: Role, covered: set[Role]) -> None:
    assert {other for other in Role if role.covers(other)} == covered


def test_a_principal_is_denied_what_its_role_does_not_cover() -> None:
    ada = Principal(token_id="1", name="ada", tenant_id=DEFAULT_TENANT, role=OPERATOR)
    ada.require(VIEWER)
    ada.require(OPERATOR)
    with pytest.raises(DeniedError, match="needs the role admin, the token has operator") as denied:
        ada.require(ADMIN)
    assert (denied.value.needed, denied.value.present) == (ADMIN, OPERATOR)


def test_whoever_has_the_link_of_an_attempt_is_told_from_the_holder_of_a_token() -> None:
    ada = Principal(token_id="1", name="ada", tenant_id=DEFAULT_TENANT, role=OPERATOR)
    service = Principal(token_id="", name="callback", tenant_id=DEFAULT_TENANT, role=OPERATOR)
    assert (ada.is_link, service.is_link) == (False, True)


@pytest.mark.parametrize("role", Role)
def test_a_role_is_known_by_its_name(role: Role) -> None:
    assert parse_role("role", str(role)) is role


@pytest.mark.parametrize("text", ["", "root", "Admin", "viewer "])
def test_another_role_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(InvalidError, match="is not a role; use viewer, operator, admin") as refused:
        parse_role("role", text)
    assert refused.value.field == "role"


def test_a_secret_names_its_token() -> None:
    assert f"rota_311840962875392001_{CHANCE}" == SECRET
    assert find_token_id(SECRET) == "311840962875392001"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rota_",
        CHANCE,
        SECRET[:-1],
        SECRET + "x",
        SECRET + "\n",
        " " + SECRET,
        SECRET.upper(),
        SECRET.replace("rota_", "rota-"),
        spell_secret("", CHANCE),
        spell_secret("0", CHANCE),
        spell_secret("-1", CHANCE),
        spell_secret("1" * 20, CHANCE),
        spell_secret("٣", CHANCE),
        spell_secret("1", CHANCE[:-1] + "é"),
        spell_secret("1", CHANCE[:-1] + "\x00"),
    ],
)
def test_what_cannot_be_a_secret_names_none(text: str) -> None:
    assert find_token_id(text) is None


def test_a_token_keeps_no_secret() -> None:
    token = a_token("1", digest=digest_of(SECRET))
    assert CHANCE not in repr(token)
    assert len(token.digest) == 64


def test_a_token_admits_its_secret_and_no_other() -> None:
    token = a_token("1", digest=digest_of(SECRET))
    assert token.admits(SECRET, at=NOW)
    assert not token.admits(SECRET[:-1] + "Z", at=NOW)
    assert not token.admits("", at=NOW)


@pytest.mark.parametrize(
    ("ends", "at", "is_admitted"),
    [
        ({"expires_at": NOW + SECOND}, NOW, True),
        ({"expires_at": NOW}, NOW, False),
        ({"expires_at": NOW}, NOW + timedelta(days=1), False),
        ({"revoked_at": NOW}, NOW, False),
        ({"revoked_at": NOW + SECOND}, NOW, False),  # by another node, whose time is a little ahead
    ],
)
def test_an_ended_token_admits_nobody(ends: dict[str, Any], at: datetime, is_admitted: bool) -> None:
    assert a_token("1", digest=digest_of(SECRET), **ends).admits(SECRET, at=at) is is_admitted


@pytest.mark.parametrize("name", ["deploy", "CI of the shop 🛒", "x" * 200])
def test_a_line_of_text_names_a_token(name: str) -> None:
    assert check_token_name("name", name) == name


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "bell\x07", "x" * 201, "\ud800", "\x00", 7, None])
def test_anything_else_does_not(name: object) -> None:
    with pytest.raises(InvalidError) as refused:
        check_token_name("name", name)
    assert refused.value.field == "name"
