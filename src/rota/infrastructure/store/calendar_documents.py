"""Calendars as JSON, for every store that keeps them so, and what becomes of a text that cannot be read."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import structlog

from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.calendar_form import calendar_from, calendar_to
from rota.domain.errors import InvalidError
from rota.domain.ids import TenantId
from rota.infrastructure.instants import from_us, to_us

_KEPT = 64  # calendars that are read already: firing asks for the same ones again and again

log = structlog.get_logger(__name__)


class _Document(msgspec.Struct, frozen=True, omit_defaults=True):
    calendar: dict[str, Any]
    created_us: int = 0  # both times only where the store has no other place for them
    updated_us: int = 0
    description: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCalendar:
    """One as the store has it. Times that are None are in the text."""

    tenant_id: TenantId
    name: str
    revision: int
    written: str | bytes
    created_us: int | None = None
    updated_us: int | None = None


def write_calendar(stored: StoredCalendar, *, with_times: bool) -> bytes:
    document = _Document(
        calendar=calendar_to(stored.calendar),
        created_us=to_us(stored.created_at) if with_times else 0,
        updated_us=to_us(stored.updated_at) if with_times else 0,
        description=stored.description,
        origin=stored.origin,
    )
    return msgspec.json.encode(document)


def read_calendar(kept: KeptCalendar) -> StoredCalendar:
    """Raises `InvalidError` for what cannot be read: a newer release wrote it, or a hand."""
    calendar, document = _read(kept.name, kept.written)
    return StoredCalendar(
        calendar=calendar,
        tenant_id=kept.tenant_id,
        description=document.description,
        origin=document.origin,
        revision=kept.revision,
        created_at=from_us(document.created_us if kept.created_us is None else kept.created_us),
        updated_at=from_us(document.updated_us if kept.updated_us is None else kept.updated_us),
    )


def list_readable(kept: Iterable[KeptCalendar]) -> list[StoredCalendar]:
    """Those that can be read; of the others the log tells."""
    found = []
    for one in kept:
        try:
            found.append(read_calendar(one))
        except InvalidError as exc:
            log.warning("calendar.unreadable", tenant=one.tenant_id, calendar=one.name, error=str(exc))
    return found


@lru_cache(maxsize=_KEPT)
def _read(name: str, written: str | bytes) -> tuple[Calendar, _Document]:
    try:
        document = msgspec.json.decode(written, type=_Document)
        return calendar_from(name, document.calendar), document
    except (msgspec.DecodeError, InvalidError) as exc:
        raise InvalidError("calendar", f"what is stored as {name!r} cannot be read: {exc}") from exc
