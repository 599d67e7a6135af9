"""The link by which a deferred attempt is finished from outside.

It reads `…/tasks/17/attempts/2.default.SIGNATURE`, and whoever works on the attempt appends a verb to it: `:complete`,
`:fail`, `:heartbeat`, `:progress`. The signature is an HMAC of tenant, task and attempt under a key that all nodes of
the cluster share, so any of them can tell a good one without asking the store. It is good for this attempt and nothing
else, and worth nothing once that has ended.
"""

import base64
import hmac
import re

from msgspec import Struct

from rota.domain.ids import MAX_ID, TaskId, TenantId

API_BASE = "/api/v1"  # where the paths of the API begin
KEY_NAME = "callback"  # of the cluster's key among its secrets
_LINK = re.compile(
    r"(?P<number>[1-9][0-9]{0,8})\.(?P<tenant>[A-Za-z0-9][A-Za-z0-9_.-]{0,62})\.(?P<signature>[A-Za-z0-9_-]{43})"
)
_ID = re.compile("[1-9][0-9]{0,18}")


class AttemptKey(Struct, frozen=True):
    """One attempt of one task, whoever runs it."""

    tenant_id: TenantId
    task_id: TaskId
    number: int


def spell_link(key: bytes, attempt: AttemptKey) -> str:
    """The path of an attempt, with the proof that whoever shows it was given the attempt."""
    return f"/tasks/{attempt.task_id}/attempts/{attempt.number}.{attempt.tenant_id}.{_sign(key, attempt)}"


def verify_link(key: bytes, task_id: str, *, attempt: str) -> AttemptKey | None:
    """The attempt that the two parts of a path are the link of; None for every wrong one, after the same time."""
    found, is_id = _LINK.fullmatch(attempt), _ID.fullmatch(task_id)
    if found is None or is_id is None or int(task_id) > MAX_ID:
        return None
    claimed = AttemptKey(TenantId(found["tenant"]), TaskId(int(task_id)), int(found["number"]))
    is_good = hmac.compare_digest(_sign(key, claimed), found["signature"])
    return claimed if is_good else None


def _sign(key: bytes, attempt: AttemptKey) -> str:
    text = f"attempt\n{attempt.tenant_id}\n{attempt.task_id}\n{attempt.number}"
    return base64.urlsafe_b64encode(hmac.digest(key, text.encode(), "sha256")).decode().rstrip("=")
