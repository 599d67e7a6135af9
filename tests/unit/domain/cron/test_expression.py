from datetime import UTC, datetime, timedelta

import pytest

from rota.domain.cron.dialect import Dialect
from rota.domain.cron.expression import EveryExpression, parse_cron
from rota.domain.cron.recurrence import recur
from rota.domain.errors import InvalidError

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday


def fires(text: str, count: int = 3, *, dialect: Dialect = Dialect.VIXIE, seed: str = "") -> list[str]:
    recurrence = recur(parse_cron(text, dialect=dialect, seed=seed))
    found: list[str] = []
    at: datetime | None = NEW_YEAR - timedelta(seconds=1)
    while at is not None and len(found) < count:
        at = recurrence.next(at)
        if at is not None:
            found.append(at.strftime("%m-%d %H:%M:%S"))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 9 * * 1-5", ["01-01 09:30:00", "01-02 09:30:00", "01-05 09:30:00"]),
        ("  30   9 * * mon ", ["01-05 09:30:00", "01-12 09:30:00", "01-19 09:30:00"]),
        ("*/25 12 1 JAN *", ["01-01 12:00:00", "01-01 12:25:00", "01-01 12:50:00"]),
        ("50/5 0 * * *", ["01-01 00:50:00", "01-01 00:55:00", "01-02 00:50:00"]),
        ("10-20/5 0 * * *", ["01-01 00:10:00", "01-01 00:15:00", "01-01 00:20:00"]),
        ("5,3 1 * * *", ["01-01 01:03:00", "01-01 01:05:00", "01-02 01:03:00"]),
        ("15 30 4 * * *", ["01-01 04:30:15", "01-02 04:30:15", "01-03 04:30:15"]),
        ("0 0 * * 0", ["01-04 00:00:00", "01-11 00:00:00", "01-18 00:00:00"]),
        ("0 0 * * 7", ["01-04 00:00:00", "01-11 00:00:00", "01-18 00:00:00"]),
        ("0 0 * * 6-7", ["01-03 00:00:00", "01-04 00:00:00", "01-10 00:00:00"]),
        ("0 0 13 * FRI", ["01-02 00:00:00", "01-09 00:00:00", "01-13 00:00:00"]),  # either of the two
        ("0 0 */2 * MON", ["01-05 00:00:00", "01-19 00:00:00", "02-09 00:00:00"]),  # a star makes both necessary
        ("0 0 L * *", ["01-31 00:00:00", "02-28 00:00:00", "03-31 00:00:00"]),
        ("0 0 * * 5L", ["01-30 00:00:00", "02-27 00:00:00", "03-27 00:00:00"]),
        ("0 0 * * 7#2", ["01-11 00:00:00", "02-08 00:00:00", "03-08 00:00:00"]),
        ("@hourly", ["01-01 00:00:00", "01-01 01:00:00", "01-01 02:00:00"]),
        ("@daily", ["01-01 00:00:00", "01-02 00:00:00", "01-03 00:00:00"]),
        ("@Weekly", ["01-04 00:00:00", "01-11 00:00:00", "01-18 00:00:00"]),
        ("@monthly", ["01-01 00:00:00", "02-01 00:00:00", "03-01 00:00:00"]),
        ("@every 36h", ["01-01 00:00:00", "01-02 12:00:00", "01-04 00:00:00"]),
    ],
)
def test_a_crontab_expression_fires_when_it_should(text: str, expected: list[str]) -> None:
    assert fires(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 30 9 ? * 2-6", ["01-01 09:30:00", "01-02 09:30:00", "01-05 09:30:00"]),
        ("0 0 0 ? * SAT-SUN", ["01-03 00:00:00", "01-04 00:00:00", "01-10 00:00:00"]),
        ("0 0 0 ? * 1", ["01-04 00:00:00", "01-11 00:00:00", "01-18 00:00:00"]),
        ("0 0 0 ? * L", ["01-03 00:00:00", "01-10 00:00:00", "01-17 00:00:00"]),
        ("0 0 22-2/2 * * ?", ["01-01 00:00:00", "01-01 02:00:00", "01-01 22:00:00"]),
        ("0 0 0 30-1 * ?", ["01-01 00:00:00", "01-30 00:00:00", "01-31 00:00:00"]),
        ("0 0 0 1 NOV-FEB ?", ["01-01 00:00:00", "02-01 00:00:00", "11-01 00:00:00"]),
        ("30/15 0 0 * * ?", ["01-01 00:00:30", "01-01 00:00:45", "01-02 00:00:30"]),
        ("/30 0 0 1 * ?", ["01-01 00:00:00", "01-01 00:00:30", "02-01 00:00:00"]),
        ("0 0 0 L-2 * ?", ["01-29 00:00:00", "02-26 00:00:00", "03-29 00:00:00"]),
        ("0 0 0 L-30 * ?", ["01-01 00:00:00", "03-01 00:00:00", "05-01 00:00:00"]),
        ("0 0 0 LW * ?", ["01-30 00:00:00", "02-27 00:00:00", "03-31 00:00:00"]),
        ("0 0 0 L-1W * ?", ["01-30 00:00:00", "02-27 00:00:00", "03-30 00:00:00"]),
        ("0 0 0 L-30W * ?", ["01-01 00:00:00", "03-02 00:00:00", "05-01 00:00:00"]),
        ("0 0 0 15W * ?", ["01-15 00:00:00", "02-16 00:00:00", "03-16 00:00:00"]),
        ("0 0 0 1W 2-8 ?", ["02-02 00:00:00", "03-02 00:00:00", "04-01 00:00:00"]),
        ("0 0 0 1W 8 ?", ["08-03 00:00:00", "08-02 00:00:00", "08-01 00:00:00"]),  # a Saturday, a Sunday, a Tuesday
        ("0 0 0 31W * ?", ["01-30 00:00:00", "03-31 00:00:00", "05-29 00:00:00"]),
        ("0 0 0 ? * 6#5", ["01-30 00:00:00", "05-29 00:00:00", "07-31 00:00:00"]),
        ("0 0 0 ? * FRIL", ["01-30 00:00:00", "02-27 00:00:00", "03-27 00:00:00"]),
        ("0 0 0 1,L 6 ? 2027-2028", ["06-01 00:00:00", "06-30 00:00:00", "06-01 00:00:00"]),
        ("0 0 0 1 1 ? *", ["01-01 00:00:00", "01-01 00:00:00", "01-01 00:00:00"]),
        ("0 0 0 29 2 ?", ["02-29 00:00:00", "02-29 00:00:00", "02-29 00:00:00"]),
        ("0 0 0 1 1 ? 2098/1", ["01-01 00:00:00", "01-01 00:00:00"]),  # then no more
        ("@yearly", ["01-01 00:00:00", "01-01 00:00:00", "01-01 00:00:00"]),
    ],
)
def test_a_quartz_expression_fires_when_it_should(text: str, expected: list[str]) -> None:
    assert fires(text, dialect=Dialect.QUARTZ) == expected


@pytest.mark.parametrize(
    ("text", "dialect", "problem"),
    [
        ("", "vixie", "must not be empty; try */5 * * * *"),
        ("* * *", "vixie", "has 3 fields; write 5"),
        ("* * * * * * *", "vixie", "has 7 fields"),
        ("61 * * * *", "vixie", "minute '61': 61 is not from 0 to 59; allowed: 0 to 59, *, lists"),
        ("* 24 * * *", "vixie", "hour '24'"),
        ("* * 0 * *", "vixie", "day of month '0'"),
        ("* * * 13 *", "vixie", "month '13': 13 is not from 1 to 12; allowed: 1 to 12 or JAN to DEC"),
        ("* * * * 8", "vixie", "day of week '8'"),
        ("* * * * FUN", "vixie", "day of week 'FUN': 'FUN' is not a number or name"),
        ("ten * * * *", "vixie", "minute 'TEN': 'TEN' is not a number;"),
        ("1,,2 * * * *", "vixie", "minute '': is empty"),
        ("5-1 * * * *", "vixie", "minute '5-1': the range ends before it begins; allowed"),
        ("* * * * SAT-SUN", "vixie", "the range ends before it begins; Sunday at the end of a range is 7"),
        ("*/0 * * * *", "vixie", "minute '*/0': the step '0' is not a number from 1"),
        ("*/x * * * *", "vixie", "the step 'X'"),
        ("*/90 * * * *", "vixie", "a step of 90 is longer than the whole field; @every counts real time"),
        ("99999 * * * *", "vixie", "'99999' is not a number"),
        ("٣ * * * *", "vixie", "is not a number"),
        ("1-2-3 * * * *", "vixie", "minute '1-2-3': is not a value, a range or a step"),
        ("/5 * * * *", "vixie", "minute '/5': is not a value"),
        ("L * * * *", "vixie", "minute 'L'"),
        ("? * * * *", "vixie", "minute '?': ? stands alone"),
        ("* * ? * *", "vixie", "day of month '?': ? stands alone"),
        ("* * L-31 * *", "vixie", "day of month 'L-31': counts back further than a month"),
        ("* * 32W * *", "vixie", "day of month '32W'"),
        ("* * * * L", "vixie", "day of week 'L': L needs a weekday here"),
        ("* * * * 5#6", "vixie", "day of week '5#6': after # comes 1 to 5"),
        ("* * * * 8#1", "vixie", "day of week '8#1'"),
        ("H(40-30) * * * *", "vixie", "minute 'H(40-30)': the range ends before it begins"),
        ("H(0-5)/7 * * * *", "vixie", "minute 'H(0-5)/7': a step of 7 is longer than 0 to 5"),
        ("H(0-70) * * * *", "vixie", "70 is not from 0 to 59"),
        ("@reboot", "vixie", "'@reboot' is not one of @yearly"),
        ("@daily 5", "vixie", "'@daily 5' is not one of"),
        ("@every", "vixie", "@every needs a duration"),
        ("@every 5x", "vixie", "is no unit"),
        ("@every 1s500ms", "vixie", "must be whole seconds"),
        ("@every 0s", "vixie", "must be whole seconds"),
        ("*" * 257, "vixie", "has 257 characters"),
        ("0 0 30 2 *", "vixie", "never fires: no day from 2000 to 2099 has day of month '30' and month '2'"),
        ("0 0 0 31 4 *", "vixie", "never fires: no day from 2000 to 2099 has day of month '31' and month '4'"),
        ("* * * * *", "quartz", "has 5 fields; write 6"),
        ("0 0 0 * * *", "quartz", "day of month '*' and day of week '*': one of them, and only one, must be ?"),
        ("0 0 0 ? * ?", "quartz", "one of them, and only one, must be ?"),
        ("0 0 12 * * MON", "quartz", "only one, must be ?; try 0 0 12 ? * MON"),
        ("0 0 12 1 * *", "quartz", "only one, must be ?; try 0 0 12 1 * ?"),
        ("0 0 12 ? * ? 2030", "quartz", "only one, must be ?; try 0 0 12 * * ? 2030"),
        ("0 0 12 1 * MON", "quartz", "only one, must be ?; try 0 0/5 * * * ?"),
        ("0 0 12 * * ?", "vixie", "is written as for Quartz, with seconds first and a ?; say so: --dialect quartz"),
        ("0 0 12 ? * MON 2030", "vixie", "is written as for Quartz"),
        ("0 0 0 ? * 0", "quartz", "day of week '0': 0 is not from 1 to 7"),
        ("0 0 0 1 1 ? 1969", "quartz", "year '1969'"),
        ("0 0 0 1 1 ? 2030-2020", "quartz", "year '2030-2020': the range ends before it begins"),
        ("0 0 0 1 1 ? 1999", "quartz", "never fires"),
        ("0 0 0 29 2 ? 2027", "quartz", "has day of month '29' and month '2' and year '2027'"),
    ],
)
def test_a_mistake_is_told_with_its_field_its_text_and_what_is_allowed(text: str, dialect: str, problem: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        parse_cron(text, dialect=Dialect(dialect))

    assert refusal.value.field == "schedule.cron"
    assert problem in refusal.value.problem


def test_only_text_is_an_expression() -> None:
    with pytest.raises(InvalidError, match="must be text"):
        parse_cron(5)


def test_an_error_names_the_place_it_was_asked_for() -> None:
    with pytest.raises(InvalidError, match=r"^backup\.when: "):
        parse_cron("x", where="backup.when")


def test_a_fifth_monday_in_february_comes_once_in_28_years() -> None:
    recurrence = recur(parse_cron("0 0 0 ? 2 2#5", dialect=Dialect.QUARTZ))

    assert recurrence.next(NEW_YEAR) == datetime(2044, 2, 29, tzinfo=UTC)
    assert recurrence.previous(NEW_YEAR) == datetime(2016, 2, 29, tzinfo=UTC)


def test_h_is_the_same_for_one_seed_and_spread_over_many() -> None:
    assert fires("H H * * *", seed="report") == fires("H H * * *", seed="report")
    minutes = {fires("H 3 * * *", 1, seed=f"type-{number}")[0] for number in range(400)}
    assert len(minutes) == 60


@pytest.mark.parametrize(("text", "dialect"), [("0 0 H * *", "vixie"), ("0 0 0 H * ?", "quartz")])
def test_h_as_a_day_is_in_every_month(text: str, dialect: str) -> None:
    for number in range(40):
        months = [fire[:2] for fire in fires(text, 12, dialect=Dialect(dialect), seed=str(number))]
        assert months == [f"{month:02}" for month in range(1, 13)]


def test_h_with_a_step_or_a_range_stays_within_it() -> None:
    for number in range(30):
        first, second, *_ = fires("H/15 * * * *", seed=str(number))
        assert int(second[9:11]) - int(first[9:11]) == 15
        assert "09:10" <= fires("H(10-20) 9 * * *", 1, seed=str(number))[0][6:11] <= "09:20"
        assert {fire[6:11] for fire in fires("H(0-9)/5 9 * * *", 4, seed=str(number))} in [
            {f"09:0{start}", f"09:0{start + 5}"} for start in range(5)
        ]
        weekday = fires("0 0 * * H", 1, seed=str(number))[0]
        assert "01-01" <= weekday[:5] <= "01-07"
        assert fires("0 0 0 ? * H", 1, dialect=Dialect.QUARTZ, seed=str(number))[0][:5] <= "01-07"


def test_two_readings_of_one_text_are_equal() -> None:
    assert parse_cron("0 9 * * *") == parse_cron(" 0  9 * * *")
    assert parse_cron("@every 5m") == EveryExpression("@every 5m", timedelta(minutes=5))
