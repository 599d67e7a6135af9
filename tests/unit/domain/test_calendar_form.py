"""Calendars as JSON."""

from datetime import UTC, date, datetime, time
from typing import Any

import pytest

from rota.domain.calendar import BusinessDays, Calendar, Period, Window
from rota.domain.calendar_form import calendar_from, calendar_to
from rota.domain.errors import InvalidError

FULL = Calendar(
    name="full",
    dates=frozenset({date(2026, 12, 24)}),
    windows=(Window(weekdays=frozenset({6, 7})), Window(begin=time(22), end=time(6, 30))),
    periods=(Period(begin=datetime(2026, 12, 20, tzinfo=UTC), end=datetime(2027, 1, 5, tzinfo=UTC)),),
    business_days=BusinessDays(holidays=frozenset({date(2026, 12, 25)}), workdays=frozenset({date(2026, 12, 26)})),
    years=(2026, 2027),
)


@pytest.mark.parametrize("calendar", [FULL, Calendar(name="empty")], ids=lambda one: one.name)
def test_a_calendar_comes_back_from_json_as_it_was(calendar: Calendar) -> None:
    assert calendar_from(calendar.name, calendar_to(calendar)) == calendar


def test_what_is_empty_is_not_written() -> None:
    assert calendar_to(Calendar(name="empty")) == {}


def test_what_is_left_out_has_its_default() -> None:
    given = {
        "windows": [{}],
        "business_days": {},
        "periods": [{"begin": "2026-01-01T09:00:00+08:00", "end": "2027-01-01T00:00:00Z"}],
    }

    found = calendar_from("short", given)

    assert (found.windows, found.business_days) == ((Window(),), BusinessDays())
    assert found.periods[0].begin == datetime(2026, 1, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"date": []}, r"calendar.date: is not known; did you mean dates"),
        ({"dates": "2026-12-24"}, r"calendar.dates: must be a list, not str"),
        ({"dates": ["24.12."]}, r"calendar.dates\[0\]: '24.12.' is not a day such as"),
        ({"dates": [7]}, r"calendar.dates\[0\]: '7' is not a day"),
        ({"windows": [5]}, r"calendar.windows\[0\]: must be an object, not int"),
        ({"windows": [{"from": "9:00"}]}, r"calendar.windows\[0\].from: is not known"),
        (
            {"windows": [{"begin": 1320}]},
            r"calendar.windows\[0\].begin: '1320' is not a time of day such as '22:00'; in YAML",
        ),
        ({"windows": [{"end": "09:00Z"}]}, r"calendar.windows\[0\].end: must name no zone"),
        ({"windows": [{"weekdays": [0]}]}, r"calendar.windows\[0\].weekdays\[0\]: must be"),
        ({"periods": [{"begin": "soon"}]}, r"calendar.periods\[0\].begin: 'soon' is not a time"),
        ({"periods": [{"begin": "2026-12-24T09:00:00"}]}, r"calendar.periods\[0\].begin: must be a time with its zone"),
        ({"business_days": []}, r"calendar.business_days: must be an object"),
        ({"business_days": {"holidays": [None]}}, r"calendar.business_days.holidays\[0\]: 'None' is not a day"),
        ({"years": [2026]}, r"calendar.years: must be the first and the last year"),
        ({"years": [2026, 2020]}, r"calendar.years: must be"),
        ({"years": ["2026", "2027"]}, r"calendar.years: must be the first and the last year"),
    ],
)
def test_what_cannot_be_read_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        calendar_from("bad", given)
