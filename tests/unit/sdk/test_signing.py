"""Signatures: by the specification, in both directions with a library that is not ours."""

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from rota.sdk.signing import SignatureError, key_of, sign, verify

SECRET, OTHER = "whsec_" + "A" * 43 + "=", "B" * 43
BODY = b'{"task_id":"7","name":"M\xc3\xbcller"}'
NOW = datetime.now(UTC).timestamp()  # noqa: TID251 the other library reads the real clock


def signed(*secrets: str, at: float = NOW) -> dict[str, str]:
    signature = sign([key_of(secret) for secret in secrets], "7", timestamp=int(at), body=BODY)
    return {"webhook-id": "7", "webhook-timestamp": str(int(at)), "webhook-signature": signature}


def check(headers: dict[str, str], *secrets: str, body: bytes = BODY) -> None:
    verify([key_of(secret) for secret in secrets], headers, body=body, now=NOW, tolerance=300)


def test_our_signature_is_understood_elsewhere() -> None:
    headers = signed(SECRET, OTHER)

    assert Webhook(SECRET).verify(BODY, headers)["task_id"] == "7"
    assert Webhook(OTHER).verify(BODY, headers)["task_id"] == "7"


def test_a_signature_made_elsewhere_is_understood() -> None:
    signature = Webhook(SECRET).sign("7", datetime.fromtimestamp(int(NOW), UTC), BODY.decode())
    headers = {"webhook-id": "7", "webhook-timestamp": str(int(NOW)), "webhook-signature": signature}

    check(headers, SECRET)


def test_any_of_several_secrets_and_signatures_fits() -> None:
    check(signed(OTHER), SECRET, OTHER)
    check(signed(SECRET, OTHER), OTHER)
    headers = signed(SECRET)
    check({**headers, "webhook-signature": f"v1a,abc v2,x {headers['webhook-signature']} nonsense"}, SECRET)


@pytest.mark.parametrize(
    "changes",
    [
        {"webhook-id": "8"},
        {"webhook-id": ""},
        {"webhook-timestamp": str(int(NOW) + 1)},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "-5"},
        {"webhook-timestamp": "9" * 400},
        {"webhook-timestamp": "١٢"},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,é"},
        {"webhook-signature": "v1,x " * 1000},
    ],
)
def test_what_was_changed_on_the_way_is_refused(changes: dict[str, str]) -> None:
    with pytest.raises(SignatureError):
        check({**signed(SECRET), **changes}, SECRET)


def test_an_id_with_a_dot_is_refused_though_its_signature_fits() -> None:
    moved = b"8." + BODY  # signed with the id "7" and a time; read as another id, with the time 8
    headers = {"webhook-id": f"7.{int(NOW)}", "webhook-timestamp": "8"}
    signature = sign([key_of(SECRET)], "7", timestamp=int(NOW), body=moved)

    with pytest.raises(SignatureError, match="dot"):
        verify([key_of(SECRET)], {**headers, "webhook-signature": signature}, body=BODY, now=8.0, tolerance=300)


def test_another_body_or_secret_is_refused() -> None:
    with pytest.raises(SignatureError):
        check(signed(SECRET), SECRET, body=BODY + b" ")
    with pytest.raises(SignatureError):
        check(signed(OTHER), SECRET)


@pytest.mark.parametrize(("shift", "is_fine"), [(-299, True), (299, True), (-302, False), (302, False)])
def test_a_request_counts_for_a_few_minutes(shift: int, is_fine: bool) -> None:
    headers = signed(SECRET, at=NOW + shift)
    if is_fine:
        check(headers, SECRET)
    else:
        with pytest.raises(SignatureError, match="clocks"):
            check(headers, SECRET)
