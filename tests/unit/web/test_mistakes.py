"""What the server refuses is told in Chinese: every code has words, and so have the sentences that forms meet most.

The console finds the words of a sentence by the sentence itself, and shows it as it is where there are none. Here the
server says each of them: one that is changed without its words is found.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from rota.application.forecast import MANY_LEFT, WAITS_FOR_END
from rota.application.manage_calendars import CountryDays, ManageCalendars, Sources
from rota.application.ports.days import DaysOfCountry
from rota.config.registry import Registries, check_executor
from rota.domain import errors
from rota.domain.access import check_token_name
from rota.domain.calendar import BusinessDays, Calendar, Period, StoredCalendar
from rota.domain.checks import check_duration, check_metadata, check_name, check_number, check_rate, check_text, to_json
from rota.domain.cron.dialect import Dialect
from rota.domain.cron.expression import parse_cron
from rota.domain.ended import check_fires
from rota.domain.firing import LastRun, decide, firing_of
from rota.domain.ids import TaskId
from rota.domain.moving import Allowed
from rota.domain.retry import RetryPolicy
from rota.domain.schedule import Schedule
from rota.domain.schedule_form import schedule_from
from rota.domain.submission import Submission, compose
from rota.domain.task_config import check_payload
from rota.domain.timetable import Timetable
from rota.infrastructure.calendars.country import days_of_country
from rota.interfaces.operations.errors import CODES, SEE_LOG
from rota.wire.config import PutConfig
from rota.wire.mistakes import explain
from rota.wire.schedule import PauseSchedule, PreviewSchedule
from tests.support.builders import a_config
from tests.support.virtual import a_bench, virtually

SOURCES = Path(__file__).resolve().parents[3] / "web" / "src"
WORDS: dict[str, str] = json.loads((SOURCES / "locales" / "mistakes.zh-CN.json").read_text("utf-8"))
KIND = "kind "
FORMS = [form for form in WORDS if not form.startswith(KIND)]
BLANK = re.compile(r"\{\{(\w+)\}\}")
NOW = datetime(2030, 1, 1, tzinfo=UTC)
OVER_AT = NOW + timedelta(hours=8)
STANDINGS = [(True, True), (False, True), (False, False)]  # of a run that is in the way
OVER = Schedule(at=(datetime(2029, 1, 1, tzinfo=UTC),))
NO_TIME = Schedule(cron="0 0 1 1 *", start_at=datetime(2029, 2, 1, tzinfo=UTC), end_at=datetime(2029, 3, 1, tzinfo=UTC))


def pattern(form: str) -> re.Pattern[str]:
    """The same as `toPattern` of web/src/i18n.ts."""
    made, seen = "", set()
    for place, part in enumerate(BLANK.split(form)):
        if place % 2 == 0:
            made += re.escape(part)
        else:
            inside = "[a-z ]+" if part.startswith("kind") else r"\S+" if part == "word" else ".+?"
            made += f"(?P={part})" if part in seen else f"(?P<{part}>{inside})"
            seen.add(part)
    return re.compile(made, re.DOTALL)


def find_form(sentence: str) -> str | None:
    return next((form for form in FORMS if pattern(form).fullmatch(sentence)), None)


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(errors.InvalidError) as told:
        act()
    return told.value.problem


def unread(wanted: Any, body: object) -> str:
    try:
        msgspec.convert(body, wanted)
    except msgspec.ValidationError as exc:
        return explain(exc, wanted, given=body).problem
    raise AssertionError(f"{body} is taken")


def executor(kind: str, **said: object) -> Callable[[], object]:
    return lambda: check_executor(a_config(executor_type=kind, executor_config=json.dumps(said)), Registries())


CHECKS: list[Callable[[], object]] = [
    lambda: check_number("priority", 10, least=0, most=9),
    lambda: check_rate("rate_per_second", 0),
    lambda: check_duration("timeout_seconds", timedelta(seconds=-1)),
    lambda: check_text("name", "\0", longest=200),
    lambda: check_text("name", "long", longest=3),
    lambda: check_name("type", "no type!"),
    lambda: check_metadata("metadata", {str(number): "" for number in range(65)}),
    lambda: check_token_name("name", " "),
    lambda: check_payload("[]", executor_type="local"),
    lambda: to_json("payload", {"long": "text"}, most_bytes=3),
    lambda: to_json("payload", json.loads("[" * 65 + "]" * 65)),
    lambda: RetryPolicy(backoff_rate=0.5),
    executor("htp"),
    executor("http"),
    executor("local", function="shop.send"),
    executor("http", url="ftp://shop.example.com"),
    executor("http", url="https://shop.example.com/{order}"),
    executor("http", url="https://ada:secret@shop.example.com"),
    executor("http", url="https://shop.example.com", method="FETCH"),
    executor("http", url="https://shop.example.com", headers={"Authorization": "x"}),
    executor("http", url="https://shop.example.com", headers={"Host": "x"}),
    executor("http", url="https://shop.example.com", response_timeout_seconds=0),
    executor("grpc", address="shop"),
    executor("grpc", address="shop:1", service="shop.v1.Orders"),
    executor("grpc", address="shop:1", service="shop v1", method="Place"),
    executor("grpc", address="shop:1", colour="red"),
    lambda: schedule_from({}),
    lambda: schedule_from({"crn": "* * * * *"}),
    lambda: schedule_from({"every_seconds": 0}),
    lambda: schedule_from({"cron": "* * * * *", "zone": "Mars"}),
    lambda: schedule_from({"cron": "* * * * *", "zone": "Asia/Shangai"}),
    lambda: schedule_from({"cron": "* * * * *", "overlap": "hope"}),
    lambda: schedule_from({"every_seconds": 60, "only": ["work"], "on_excluded": "run_after"}),
    lambda: schedule_from({"at": []}),
    lambda: schedule_from({"at": ["soon"]}),
    lambda: schedule_from({"at": ["2030-01-31T09:00:00"]}),
    lambda: schedule_from({"at": ["1999-01-31T09:00:00Z"]}),
    lambda: check_fires(a_config(schedule=OVER), NOW),
    lambda: check_fires(a_config(schedule=NO_TIME), NOW),
    lambda: parse_cron(""),
    lambda: parse_cron("* * *"),
    lambda: parse_cron("0 0 12 * * ?"),
    lambda: parse_cron("61 * * * *"),
    lambda: parse_cron("5-1 * * * *"),
    lambda: parse_cron("x * * * *"),
    lambda: parse_cron("0 0 30 2 *"),
    lambda: parse_cron("* * *", dialect=Dialect.QUARTZ),
    lambda: parse_cron("0 0 0 1 * 1", dialect=Dialect.QUARTZ),
    lambda: days_of_country("XX", [2030]),
    lambda: compose(Submission(type="nobody"), None, task_id=TaskId(1), now=NOW),
    lambda: compose(Submission(type="off"), a_config("off", is_enabled=False), task_id=TaskId(1), now=NOW),
]
UNREAD: list[tuple[Any, object]] = [
    (PreviewSchedule, {}),
    (PreviewSchedule, {"cron": "0 9 * * *"}),
    (PreviewSchedule, {"schedule": {}, "count": 0}),
    (PreviewSchedule, {"schedule": {}, "count": 10**6}),
    (PauseSchedule, {"note": "x" * 501}),
    (PutConfig, {"name": 1}),
    (PutConfig, {"naem": ""}),
    (PutConfig, {"retry": {"strategy": "FIXD"}}),
    (PutConfig, {"retry": {"strategy": "never"}}),
]
ERRORS = [
    *(errors.NotFoundError(kind, "x") for kind in ("task", "task config", "calendar", "worker", "token", "schedule")),
    errors.NotFoundError("task config revision", "report 3"),
    errors.IllegalTransitionError(1, present="CANCELLED", wanted="CANCELLED"),
    errors.IllegalTransitionError(1, present="SUCCESS", wanted="CANCELLED"),
    errors.RevisionConflictError("report", expected=1, current=2),
    errors.CalendarInUseError("work", types=["report"]),
    errors.DeniedError("admin", present="viewer"),
    errors.RateLimitedError(timedelta(seconds=3)),
    errors.UnauthenticatedError(),
]


def test_every_code_has_words() -> None:
    source = (SOURCES / "components" / "problem.tsx").read_text("utf-8")
    (same,) = re.findall(r"SAME: .*? = \{(.*?)\};", source, re.DOTALL)
    (known,) = re.findall(r"KNOWN = \[(.*?)\]", source, re.DOTALL)
    told = {*re.findall(r'"(\w+)"', known), *re.findall(r"(\w+):", same)}
    assert CODES.keys() <= told
    assert told - CODES.keys() == {"unreachable"}


def an_overlap(last: LastRun) -> str:
    config = a_config(schedule=Schedule(cron="* * * * *"), next_fire_at=NOW, last_run=TaskId(7))
    (skipped,) = firing_of(config, decide(config, NOW, last=last), task_ids=[], now=NOW).occurrences
    return skipped.reason.removeprefix("overlap: ")


def an_overlap_of_two_at_once() -> str:
    config = a_config(schedule=Schedule(cron="* * * * * *"), next_fire_at=NOW)
    later = NOW + timedelta(seconds=1)
    decision = decide(config, later, last=LastRun())
    *_, skipped = firing_of(config, decision, task_ids=[TaskId(7)], now=later).occurrences
    return skipped.reason.removeprefix("overlap: ")


def of_schedules() -> Iterator[str]:
    """Why one cannot be foreseen, or does not fire."""
    old = Calendar(name="old", years=(2020, 2021))
    night = Calendar(name="night", periods=(Period(begin=NOW, end=OVER_AT),))
    yield from (WAITS_FOR_END, MANY_LEFT)
    yield refused(lambda: Timetable(Schedule(cron="0 9 * * *", only=("work",)), seed="x"))
    yield refused(lambda: old.covers(NOW))
    yield Allowed([], [night], ZoneInfo("UTC")).objection(NOW)
    yield Allowed([night], [], ZoneInfo("UTC")).objection(OVER_AT)
    yield from (an_overlap(LastRun(is_live=True, has_begun=begun, was_tried=tried)) for begun, tried in STANDINGS)
    yield an_overlap_of_two_at_once()


@dataclass(frozen=True, slots=True)
class Days:
    """A source that knows a country whose days that are worked instead are known until a year, if there is one."""

    worked_until: int | None = None

    async def of_country(self, country: str, years: Sequence[int], *, subdivision: str | None = None) -> DaysOfCountry:
        return DaysOfCountry(BusinessDays(), self.worked_until)

    async def of_ics(self, name: str, text: str) -> Calendar:
        return Calendar(name=name)


def of_calendars() -> list[str]:
    """Where the days of calendars come from."""
    said: list[str] = []

    @virtually
    async def scene() -> None:
        bench, empty = await a_bench(), StoredCalendar(calendar=Calendar(name="work"))
        for days, kind in product((Days(), Days(2030)), CountryDays):
            stored = await ManageCalendars(bench.node, days).put(empty, sources=Sources(country="CN", days=kind))
            said.append(stored.origin)
        said.append((await ManageCalendars(bench.node, Days()).put(empty, sources=Sources(ics=""))).origin)

    scene()
    return said


def test_the_sentences_of_the_catalog_are_those_that_the_server_says() -> None:
    said = [*map(refused, CHECKS), *(unread(*one) for one in UNREAD), *map(str, ERRORS), SEE_LOG]
    said += [*of_schedules(), *of_calendars()]
    found = {sentence: find_form(sentence) for sentence in said}
    assert [sentence for sentence, form in found.items() if form is None] == []
    assert set(found.values()) == set(FORMS), "what nobody says any more"


def test_translations_have_no_blank_of_their_own() -> None:
    for form, text in WORDS.items():
        assert set(BLANK.findall(text)) <= set(BLANK.findall(form)), form
