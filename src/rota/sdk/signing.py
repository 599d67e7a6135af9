"""Signatures of HTTP requests by the Standard Webhooks specification 1.0, symmetric (`v1`).

Signed are id, timestamp and body, joined by dots, with HMAC-SHA256. A secret is base64 of 24 to 64 random bytes, with
or without `whsec_` in front. While a secret is replaced, requests carry a signature with each of the two.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence

PREFIX = "whsec_"
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
LEAST_BYTES, MOST_BYTES = 24, 64
MOST_SIGNATURES = 16  # in one header; who rotates has two


class SignatureError(Exception):
    """The request is not from who has the secret, or too old. It never says how far off it was."""


def key_of(secret: str) -> bytes:
    """The key that a secret stands for, or `ValueError` that does not repeat it."""
    text = secret.strip().removeprefix(PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a secret must be base64, such as whsec_ and the output of: openssl rand -base64 32") from None
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(f"a secret must have {LEAST_BYTES} to {MOST_BYTES} bytes, as from: openssl rand -base64 32")
    return key


def sign(keys: Sequence[bytes], message_id: str, *, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one signature for each key."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return " ".join([f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}" for key in keys])


def verify(keys: Sequence[bytes], headers: Mapping[str, str], *, body: bytes, now: float, tolerance: float) -> None:
    """`SignatureError` unless one of the keys signed it within the tolerance, in seconds; names are in lower case."""
    message_id, sent, given = (headers.get(name, "") for name in (ID, TIMESTAMP, SIGNATURE))
    if not (message_id and sent and given):
        raise SignatureError(f"the headers {ID}, {TIMESTAMP} and {SIGNATURE} are needed")
    if "." in message_id:  # dots join what is signed: with one inside, a part could be taken for another
        raise SignatureError(f"{ID} must have no dot")
    if not (sent.isascii() and sent.isdigit() and len(sent) <= 12):
        raise SignatureError(f"{TIMESTAMP} is not a number of seconds")
    if abs(now - int(sent)) > tolerance:
        raise SignatureError(f"{TIMESTAMP} is too far from the present; compare the clocks")
    wanted = [part.encode() for part in sign(keys, message_id, timestamp=int(sent), body=body).split()]
    offered = [part.encode() for part in given.split()[:MOST_SIGNATURES]]
    if not any([hmac.compare_digest(one, other) for one in wanted for other in offered]):  # noqa: C419 all are compared
        raise SignatureError("no signature fits")
