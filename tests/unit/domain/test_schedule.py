from datetime import timedelta
from typing import Any

import pytest

from rota.domain.checks import EARLIEST
from rota.domain.cron.dialect import Dialect
from rota.domain.cron.recurrence import DstGap, DstOverlap
from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId
from rota.domain.schedule import Occurrence, OccurrenceStatus, OnExcluded, OnMissed, Overlap, Schedule
from rota.domain.schedule_form import schedule_from, schedule_to
from rota.testing.values import replace
from tests.support.builders import EMAIL, HOUR, MINUTE, NOW

DAILY: dict[str, Any] = {"cron": "0 9 * * *"}
FULL = Schedule(
    cron="0 0 9 ? * 2-6",
    dialect=Dialect.QUARTZ,
    zone="Asia/Shanghai",
    dst_gap=DstGap.SKIP,
    dst_overlap=DstOverlap.BOTH,
    start_at=NOW,
    end_at=NOW + HOUR,
    jitter=MINUTE,
    max_runs=5,
    overlap=Overlap.QUEUE_ONE,
    on_missed=OnMissed.RUN_ALL,
    missed_grace=HOUR,
    missed_limit=7,
    only=("work",),
    exclude=("freeze", "moon"),
    on_excluded=OnExcluded.RUN_BEFORE,
    is_paused=True,
    pause_note="until Monday",
    pause_after_failures=3,
    payload='{"a":1}',
    priority=5,
)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("schedule.cron", {"cron": "*" * 257}),
        ("schedule.cron", {"cron": ""}),
        ("schedule.cron", {"cron": " "}),
        ("schedule.cron", {"cron": "0 0 31 4 *"}),
        (
            "schedule.cron",
            {"cron": "0 30 2 29 3 ? 2026", "dialect": Dialect.QUARTZ, "zone": "Europe/Berlin", "dst_gap": DstGap.SKIP},
        ),
        ("schedule.zone", {"zone": "Mars/Olympus_Mons"}),
        ("schedule", {"cron": None}),
        ("schedule", {"every": HOUR}),
        ("schedule.every_seconds", {"cron": None, "every": timedelta(milliseconds=999)}),
        ("schedule.after_end_seconds", {"cron": None, "after_end": -MINUTE}),
        ("schedule.at[1]", {"cron": None, "at": (NOW, NOW.replace(tzinfo=None))}),
        ("schedule.at", {"cron": None, "at": (NOW, NOW)}),
        ("schedule.at", {"cron": None, "at": tuple(NOW + number * MINUTE for number in range(1001))}),
        ("schedule.overlap", {"overlap": "skip it"}),
        ("schedule.dialect", {"dialect": "cron"}),
        ("schedule.start_at", {"start_at": NOW.replace(year=1999)}),
        ("schedule.end_at", {"start_at": NOW, "end_at": NOW}),
        ("schedule.jitter_seconds", {"jitter": -MINUTE}),
        ("schedule.missed_grace_seconds", {"missed_grace": -MINUTE}),
        ("schedule.missed_limit", {"missed_limit": 0}),
        ("schedule.missed_limit", {"missed_limit": 1001}),
        ("schedule.max_runs", {"max_runs": 0}),
        ("schedule.pause_after_failures", {"pause_after_failures": 0}),
        ("schedule.only[0]", {"only": ("no spaces",)}),
        ("schedule.exclude", {"exclude": ("x",) * 17}),
        ("schedule.on_excluded", {"cron": None, "every": HOUR, "on_excluded": OnExcluded.RUN_AFTER}),
        ("schedule.on_excluded", {"cron": "* * * * *", "on_excluded": OnExcluded.RUN_AFTER}),
        ("schedule.on_excluded", {"cron": "@every 5m", "on_excluded": OnExcluded.RUN_AFTER}),
        ("schedule.pause_note", {"pause_note": "x" * 501}),
        ("schedule.payload", {"payload": "{"}),
        ("schedule.priority", {"priority": 10}),
    ],
)
def test_an_unsound_schedule_is_refused_by_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as refusal:
        Schedule(**DAILY | wrong)

    assert refusal.value.field == field


def test_a_schedule_without_cron_has_no_expression() -> None:
    with pytest.raises(InvalidError, match=r"schedule\.cron"):
        Schedule(every=HOUR).recurrence()


def test_h_is_spread_by_the_seed() -> None:
    spread = Schedule(cron="H H * * *")

    assert len({spread.recurrence(f"type-{number}").next(NOW) for number in range(20)}) > 15


@pytest.mark.parametrize("cron", ["H/5 * * * *", "1,H 3 * * *", "H(0-29) * * * *", "0 0 h * *", "0 H 5 H thu"])
def test_what_has_an_h_is_spread(cron: str) -> None:
    assert Schedule(cron=cron).is_spread


@pytest.mark.parametrize("cron", ["@hourly", "@monthly", "@every 1h", " @every 1h", "0 9 * * THU", "0 9 * MAR thu"])
def test_what_only_has_the_letter_is_not_spread(cron: str) -> None:
    assert not Schedule(cron=cron).is_spread


def test_whether_a_spread_schedule_ever_fires_is_judged_by_its_seed() -> None:
    january_or_never = Schedule(cron="0 0 30 H(1-2) *")

    assert january_or_never.recurrence("email").next(NOW)
    with pytest.raises(InvalidError, match="never fires"):
        january_or_never.recurrence("e")


@pytest.mark.parametrize("days", ["H(28-29)", "H(29-30)"])
def test_a_spread_time_that_the_clocks_skip_for_some_seeds_is_not_refused(days: str) -> None:
    cron = f"0 30 2 {days} 3 ? 2026"
    spread = Schedule(cron=cron, dialect=Dialect.QUARTZ, zone="Europe/Berlin", dst_gap=DstGap.SKIP)

    assert {spread.recurrence(f"type-{number}").next(EARLIEST) is None for number in range(20)} == {True, False}


@pytest.mark.parametrize(
    "schedule",
    [
        FULL,
        Schedule(**DAILY),
        Schedule(every=timedelta(seconds=1.5)),
        Schedule(after_end=timedelta(0), payload=' { "a" : [1] } '),
        Schedule(at=(NOW,)),
        Schedule(at=(NOW, NOW + HOUR), on_excluded=OnExcluded.RUN_AFTER),
    ],
)
def test_a_schedule_written_as_json_is_read_as_it_was(schedule: Schedule) -> None:
    assert schedule_from(schedule_to(schedule)) == schedule


def test_what_has_its_default_is_not_written() -> None:
    assert schedule_to(Schedule(**DAILY)) == {"cron": "0 9 * * *", "zone": "UTC"}
    assert schedule_to(Schedule(at=(NOW,))) == {"at": "2026-01-01T12:00:00Z", "zone": "UTC"}
    assert schedule_to(replace(FULL, cron="0 0 9 ? * 2")) == {
        "cron": "0 0 9 ? * 2",
        "dialect": "quartz",
        "zone": "Asia/Shanghai",
        "dst_gap": "skip",
        "dst_overlap": "both",
        "start_at": "2026-01-01T12:00:00Z",
        "end_at": "2026-01-01T13:00:00Z",
        "jitter_seconds": 60.0,
        "max_runs": 5,
        "overlap": "queue_one",
        "on_missed": "run_all",
        "missed_grace_seconds": 3600.0,
        "missed_limit": 7,
        "only": ["work"],
        "exclude": ["freeze", "moon"],
        "on_excluded": "run_before",
        "paused": True,
        "pause_note": "until Monday",
        "pause_after_failures": 3,
        "payload": {"a": 1},
        "priority": 5,
    }


def test_times_are_read_with_any_offset_and_in_any_order() -> None:
    read = schedule_from({"at": ["2026-01-01T13:00:00+00:00", "2026-01-01T20:00:00+08:00", NOW], "priority": "high"})

    assert (read.at, read.priority) == ((NOW, NOW + HOUR), 5)


@pytest.mark.parametrize(
    ("given", "field", "problem"),
    [
        ("0 9 * * *", "schedule", "must be an object"),
        ({"corn": "0 9 * * *"}, "schedule.corn", "is not known; did you mean cron?"),
        ({"xyzzy": 1}, "schedule.xyzzy", "is not known; known are cron, dialect"),
        ({"cron": 5}, "schedule.cron", "must be text, not int"),
        ({"cron": "61 * * * *"}, "schedule.cron", "minute '61'"),
        ({"cron": "* * * * *", "dialect": "unix"}, "schedule.dialect", "'unix' must be one of vixie, quartz"),
        ({"cron": "* * * * *", "overlap": ["skip"]}, "schedule.overlap", "must be one of skip, queue_one"),
        ({"every_seconds": "5m"}, "schedule.every_seconds", "must be a number of seconds, not str"),
        ({"every_seconds": True}, "schedule.every_seconds", "must be a number of seconds, not bool"),
        ({"every_seconds": float("nan")}, "schedule.every_seconds", "no number of seconds"),
        ({"every_seconds": 1e300}, "schedule.every_seconds", "no number of seconds"),
        ({"at": "tomorrow"}, "schedule.at", "'tomorrow' is not a time"),
        ({"at": ["2026-01-01T00:00:00"]}, "schedule.at[0]", "must be a time with its zone"),
        ({"at": [5]}, "schedule.at[0]", "must be a time with its zone"),
        ({"at": "0001-01-01T00:00:00+14:00"}, "schedule.at", "is outside the years"),
        ({"at": []}, "schedule.at", "needs at least one time"),
        ({"cron": "* * * * *", "only": "work"}, "schedule.only", "must be a list of names"),
        ({"cron": "* * * * *", "only": [1]}, "schedule.only[0]", "must be text"),
        ({"cron": "* * * * *", "paused": 1}, "schedule.paused", "must be true or false"),
        ({"cron": "* * * * *", "max_runs": "3"}, "schedule.max_runs", "must be a whole number"),
        ({"cron": "* * * * *", "priority": "soon"}, "schedule.priority", "must be 0 to 9"),
        ({"cron": "* * * * *", "payload": {1: 2}}, "schedule.payload", "a key that is not text"),
    ],
)
def test_json_that_is_no_schedule_is_refused_by_key(given: Any, field: str, problem: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        schedule_from(given)

    assert refusal.value.field == field
    assert problem in refusal.value.problem


def test_a_null_is_as_good_as_nothing() -> None:
    assert schedule_from({"cron": "0 9 * * *", "payload": None, "max_runs": None}) == Schedule(**DAILY)


def test_a_target_time_that_made_a_task_was_fired() -> None:
    assert Occurrence(task_type=EMAIL, fire_at=NOW, task_id=TaskId(7)).status is OccurrenceStatus.FIRED


def test_a_target_time_without_a_task_was_skipped() -> None:
    assert Occurrence(task_type=EMAIL, fire_at=NOW, reason="overlap").status is OccurrenceStatus.SKIPPED


def test_a_skipped_occurrence_says_why() -> None:
    with pytest.raises(InvalidError, match="reason"):
        Occurrence(task_type="report", fire_at=NOW)
    assert Occurrence(task_type="report", fire_at=NOW, reason="paused").status is OccurrenceStatus.SKIPPED


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"every": 5}, "schedule.every: is not known; did you mean every_seconds?"),
        ({}, "schedule: says not when; give exactly one of cron, every_seconds, after_end_seconds and at"),
        ({"cron": "0 0 32 * *"}, "the last (L, L-3), nearest weekdays (15W, LW) and H"),
        ({"cron": "0 0 * * 9"}, "the last (5L), the third of a month (5#3) and H"),
    ],
)
def test_a_mistake_is_told_in_the_words_that_can_be_typed(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidError) as caught:
        schedule_from(given)
    assert told in str(caught.value)
