"""What requests and answers have in common."""

from typing import Annotated, Generic, TypeVar

import msgspec

Item = TypeVar("Item")
IN_THE_WAY = "The task that is in the way, where one is: such as the one that an idempotency key made before."
NEEDED = "The role that this needs, where that of the token does not suffice."


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A body that a client sends. A misspelt field is an error, never silently without effect."""


class Answer(msgspec.Struct, kw_only=True):
    """A body that the server sends: every field is always there."""


class Page(Answer, Generic[Item]):
    """A piece of a list; with `next_cursor` as `cursor`, the same request gives the next one."""

    items: list[Item]
    next_cursor: str | None = None


class FieldError(Answer):
    """One thing that is wrong with a request."""

    field: str
    problem: str


class Problem(Answer):
    """What went wrong (RFC 9457). `code` is stable and for programs; `detail` says what to do."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldError] = []
    task_id: Annotated[str, msgspec.Meta(description=IN_THE_WAY)] | msgspec.UnsetType = msgspec.UNSET
    needed_role: Annotated[str, msgspec.Meta(description=NEEDED)] | msgspec.UnsetType = msgspec.UNSET
