"""Calendars as stores keep them: what earlier releases wrote is read, and what nobody can read is passed over."""

from dataclasses import replace
from datetime import UTC, datetime

from structlog.testing import capture_logs

from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.ids import DEFAULT_TENANT
from rota.infrastructure.instants import to_us
from rota.infrastructure.store.calendar_documents import KeptCalendar, list_readable, read_calendar, write_calendar

BEGUN, CHANGED = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
CLOSED = StoredCalendar(
    calendar=Calendar(name="closed"), description="no work", revision=3, created_at=BEGUN, updated_at=CHANGED
)
KEPT = KeptCalendar(tenant_id=DEFAULT_TENANT, name="closed", revision=3, written=b"")


def test_times_are_in_the_text_or_beside_it() -> None:
    inside = replace(KEPT, written=write_calendar(CLOSED, with_times=True))
    assert read_calendar(inside) == CLOSED
    text = write_calendar(CLOSED, with_times=False)
    assert b"_us" not in text
    beside = replace(KEPT, written=text.decode(), created_us=to_us(BEGUN), updated_us=to_us(CHANGED))
    assert read_calendar(beside) == CLOSED


def test_what_an_earlier_release_wrote_in_sql_is_read() -> None:
    written = '{"calendar":{},"description":"","origin":""}'
    kept = replace(KEPT, written=written, created_us=to_us(BEGUN), updated_us=to_us(CHANGED))
    assert read_calendar(kept) == replace(CLOSED, description="")


def test_what_cannot_be_read_is_told_to_the_log_and_stops_no_other() -> None:
    sound = replace(KEPT, written=write_calendar(CLOSED, with_times=True))
    with capture_logs() as logs:
        assert list_readable([replace(KEPT, name="odd", written='{"calendar": {"moons": []}}'), sound]) == [CLOSED]
    assert [(entry["event"], entry["calendar"]) for entry in logs] == [("calendar.unreadable", "odd")]
