"""Where cronsim and croniter document the same meaning, they find the same times; where not, the page says why."""

import re
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Protocol
from zoneinfo import ZoneInfo

import pytest
from croniter import CroniterError, croniter
from cronsim import CronSim, CronSimError
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rota.domain.cron.expression import parse_cron
from rota.domain.cron.recurrence import between, recur
from rota.domain.errors import InvalidError
from tests.support.cron_oracle import MONTHS, WEEKDAYS
from tests.support.properties import PROPERTY

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "cron-dialects.md"
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text("utf-8"))
LATEST = datetime(2099, 1, 1, tzinfo=UTC)
# The others step through the days: what fires once in decades takes them long, and shrinking would repeat that.
COMPARED = settings(PROPERTY, max_examples=60, phases=(Phase.explicit, Phase.reuse, Phase.generate))
ZONES = st.sampled_from(
    ("UTC", "Europe/Berlin", "America/New_York", "Asia/Shanghai", "America/St_Johns", "Africa/Cairo")
)
STARTS = st.builds(
    lambda year, month: datetime(year, month, 1, 12, tzinfo=UTC), st.integers(2010, 2060), st.integers(1, 12)
)


@st.composite
def numbers(draw: st.DrawFn, bounds: tuple[int, int]) -> str:
    low, high = bounds
    first, last = sorted((draw(st.integers(low, high)), draw(st.integers(low, high))))
    step = draw(st.integers(2, 9))
    span = [f"{first}-{last}"] if first < last else []
    every = [f"*/{step}"] if last - first >= step else []
    steps = [f"{first}-{last}/{step}"] if last - first >= step else []
    return draw(st.sampled_from([f"{first}", f"{last},{first}", *span, *every, *steps]))


WEEKDAY = st.one_of(numbers((0, 6)), st.sampled_from(WEEKDAYS))
MONTH = st.one_of(st.just("*"), numbers((1, 12)), st.sampled_from(MONTHS))
DAY = st.one_of(numbers((1, 28)), st.just("L"))
DAYS = st.one_of(  # in croniter a step that begins with a star does not count as a star
    st.just("* *"),
    DAY.map(lambda day: f"{day} *"),
    WEEKDAY.map(lambda weekday: f"* {weekday}"),
    st.tuples(DAY, WEEKDAY).map(" ".join).filter(lambda days: "*" not in days),
)
TIME = st.tuples(st.one_of(st.just("*"), numbers((0, 59))), st.one_of(st.just("*"), numbers((0, 23)))).map(" ".join)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    day, weekday = draw(DAYS).split()
    return f"{draw(TIME)} {day} {draw(MONTH)} {weekday}"


def ours(text: str, start: datetime, *, zone: str, count: int = 5) -> list[datetime]:
    found = between(recur(parse_cron(text), zone=zone), start + timedelta(seconds=1), end=LATEST)
    return list(islice(found, count))


def cronsims(text: str, start: datetime, *, zone: str, count: int = 5) -> list[datetime]:
    found = islice(CronSim(text, start.astimezone(ZoneInfo(zone))), count * 3)
    return sorted({at.astimezone(UTC) for at in found})[:count]  # it tells the end of a gap once for each time in it


def croniters(text: str, start: datetime, *, zone: str, count: int = 5) -> list[datetime]:
    found = croniter(text, start.astimezone(ZoneInfo(zone)))
    return [found.get_next(datetime).astimezone(UTC) for _ in range(count)]


@COMPARED
@given(text=expressions(), start=STARTS, zone=ZONES)
def test_cronsim_finds_the_same_times_through_daylight_saving(text: str, start: datetime, zone: str) -> None:
    assert ours(text, start, zone=zone) == cronsims(text, start, zone=zone)


@COMPARED
@given(text=expressions(), start=STARTS, zone=st.sampled_from(("UTC", "Asia/Shanghai", "Asia/Kathmandu")))
def test_croniter_finds_the_same_times_where_clocks_are_not_changed(text: str, start: datetime, zone: str) -> None:
    assert ours(text, start, zone=zone) == croniters(text, start, zone=zone)


@COMPARED
@given(second=numbers((0, 59)), text=expressions(), start=STARTS)
def test_cronsim_agrees_about_seconds(second: str, text: str, start: datetime) -> None:
    assert ours(f"{second} {text}", start, zone="UTC") == cronsims(f"{second} {text}", start, zone="UTC")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_difference_is_as_the_page_tells_it(row: tuple[str, str, str, str]) -> None:
    text, *told = row
    start = datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)

    found = [_told(evaluate, text, start=start) for evaluate in (ours, cronsims, croniters)]

    assert found == [one.strip() for one in told]


def test_the_page_has_its_table() -> None:
    assert len(ROWS) >= 12


class Evaluate(Protocol):
    def __call__(self, text: str, start: datetime, *, zone: str, count: int) -> list[datetime]: ...


def _told(evaluate: Evaluate, text: str, *, start: datetime) -> str:
    try:
        found = evaluate(text, start, zone="UTC", count=3)
    except (InvalidError, CronSimError, CroniterError):
        return "refused"
    return ", ".join(at.strftime("%m-%d %H:%M").removesuffix(" 00:00") for at in found)
