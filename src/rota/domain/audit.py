"""The record of who changed what. An entry is written together with the change, or not at all."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec import Struct

from rota.domain.checks import check_aware, check_number, check_text
from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT, MAX_ID, TaskId, TenantId, first_id_at
from rota.domain.paging import MAX_PAGE

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries to look for; empty means any. Texts are met whole, moments by the id of an entry."""

    tenant_id: TenantId = DEFAULT_TENANT
    actor: str = ""
    action: str = ""
    object: str = ""
    after: datetime | None = None
    before: datetime | None = None
    below: int | None = None  # the cursor
    limit: int = 100

    def __post_init__(self) -> None:
        check_number("limit", self.limit, least=1, most=MAX_PAGE)
        for name, longest in (("actor", MAX_ACTOR), ("action", MAX_ACTION), ("object", MAX_OBJECT)):
            check_text(name, getattr(self, name), longest=longest)
        for name, moment in (("after", self.after), ("before", self.before)):
            if moment is not None:
                check_aware(name, moment)

    @property
    def texts(self) -> dict[str, str]:
        """What entries must say, by the name of their field."""
        wanted = {"actor": self.actor, "action": self.action, "object": self.object}
        return {name: text for name, text in wanted.items() if text}

    @property
    def ids(self) -> range:
        """The ids among which such entries are."""
        end = MAX_ID + 1 if self.before is None else first_id_at(self.before)
        return range(
            0 if self.after is None else first_id_at(self.after), end if self.below is None else min(end, self.below)
        )

    def fits(self, entry: AuditEntry) -> bool:
        return all(getattr(entry, name) == text for name, text in self.texts.items())


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some entries and, when there may be more, below which id to go on. It may have fewer than were asked for."""

    items: tuple[AuditEntry, ...]
    next_below: int | None = None


def page_of(found: Sequence[AuditEntry], limit: int, *, looked_down_to: int | None = None) -> AuditPage:
    """A page of what was found, newest first; where not everything was looked at, all of it from this id on was."""
    items = tuple(found[:limit])
    return AuditPage(items, items[-1].id if len(items) == limit else looked_down_to)


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
