"""The record of who changed what. An entry is written together with the change, or not at all."""

from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec import Struct

from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId, TenantId

MAX_ACTION = 63
MAX_OBJECT = 200
MAX_ACTOR = 200
MAX_TOKEN_ID = 63
MAX_ADDRESS = 255
MAX_AUDIT_DETAIL = 2000


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One thing that somebody did. Never holds a payload or a secret."""

    id: int
    tenant_id: TenantId
    at: datetime
    actor: str  # the name of the token, or of the user of this machine
    action: str  # what was done to what kind of thing: `task.cancel`
    object: str  # the id or the type of what it was done to
    address: str = ""  # where the request came from
    detail: str = ""
    token_id: str = ""  # several tokens may have one name; "": nobody showed one


def check_subjects(audit: Sequence[AuditEntry], task_ids: Collection[TaskId]) -> None:
    """Each entry about a batch of steps names one of its tasks, so that it is known whether it holds."""
    named = {str(task_id) for task_id in task_ids}
    for entry in audit:
        if entry.object not in named:
            raise InvalidError("audit", f"{entry.action} of {entry.object!r} is about no task of this batch")


def entries_about(audit: Sequence[AuditEntry], task_ids: Collection[TaskId]) -> list[AuditEntry]:
    """Those of the entries that are about one of these tasks."""
    named = {str(task_id) for task_id in task_ids}
    return [entry for entry in audit if entry.object in named]
