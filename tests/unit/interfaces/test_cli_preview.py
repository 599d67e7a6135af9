"""`rota schedule preview` and `next`: any schedule, from any moment, on the clock of its own zone."""

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.interfaces.cli.main import run
from tests.unit.interfaces.fake_api import CONFIG, FORECAST, PREVIEW, FakeApi, page

Printed = pytest.CaptureFixture[str]
BERLIN = {
    **PREVIEW,
    "schedule": {"cron": "30 2 * * *", "zone": "Europe/Berlin"},
    "recent": ["2027-03-27T01:30:00Z"],
    "upcoming": ["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"],
    "effects": [],
}


def test_times_are_on_the_clock_of_the_zone_so_that_daylight_saving_is_seen(api: FakeApi, capsys: Printed) -> None:
    api.on("POST /schedules:preview", BERLIN)
    options = ["--zone", "Europe/Berlin", "--dst-gap", "skip", "--dst-overlap", "both", "--from", "2027-03-28T00:00Z"]
    assert run(["schedule", "preview", "30 2 * * *", *options]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "  2027-03-27T02:30:00+01:00  before",
        "  2027-03-28T03:00:00+02:00",
        "  2027-03-29T02:30:00+02:00",
    ]
    wanted = {"cron": "30 2 * * *", "zone": "Europe/Berlin", "dst_gap": "skip", "dst_overlap": "both"}
    assert api.bodies() == [{"schedule": wanted, "after": "2027-03-28T00:00:00Z"}]


@pytest.mark.parametrize(
    ("written", "task_type"),
    [
        ("every_seconds: 90\nstart_at: 2026-06-01T00:00:00Z\n", ""),
        ("type: report\nschedule:\n  every_seconds: 90\n  start_at: 2026-06-01T00:00:00Z\n", "report"),
    ],
)
def test_a_whole_schedule_comes_from_a_file(api: FakeApi, written: str, task_type: str) -> None:
    Path("one.yaml").write_text(written, "utf-8")
    api.on("POST /schedules:preview", PREVIEW)
    assert run(["schedule", "preview", "--schedule", "@one.yaml"]) == 0
    (sent,) = api.bodies()
    assert sent["schedule"] == {"every_seconds": 90, "start_at": "2026-06-01T00:00:00+00:00"}
    assert sent.get("type", "") == task_type


def test_a_whole_schedule_can_be_typed(api: FakeApi) -> None:
    api.on("POST /schedules:preview", PREVIEW)
    assert run(["schedule", "preview", "-s", '{"at": ["2027-01-01T00:00:00Z"]}', "--zone", "Asia/Tokyo"]) == 0
    (sent,) = api.bodies()
    assert sent["schedule"] == {"at": ["2027-01-01T00:00:00Z"], "zone": "Asia/Tokyo"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "CRON: is missing: give an expression, or --schedule"),
        (["-s", "90"], "--schedule: must be a schedule such as"),
        (["-s", "{"], "--schedule: is neither JSON nor YAML"),
        (["0 9 * * *", "--from", "tomorrow"], "--from: 'tomorrow' is not a time"),
    ],
)
def test_what_is_no_schedule_is_told(api: FakeApi, capsys: Printed, words: list[str], told: str) -> None:
    assert run(["schedule", "preview", *words]) == 2
    assert told in capsys.readouterr().err
    assert not api.sent


STATES = [
    ("paused", {"pause_note": "disk"}, "paused (disk): nothing fires; to go on: rota schedule resume email"),
    ("disabled", {}, "its type is disabled: nothing fires; to go on: rota config-type resume email"),
    ("ended", {}, "has ended: it does not fire any more"),
]


@pytest.mark.parametrize(("state", "more", "told"), STATES)
def test_a_schedule_that_fires_nothing_says_so(
    api: FakeApi, capsys: Printed, state: str, more: dict[str, Any], told: str
) -> None:
    schedule = {"cron": "0 9 * * *", "zone": "UTC", **more}
    api.on("GET /task-configs/email/schedule", {**PREVIEW, "state": state, "schedule": schedule})
    assert run(["schedule", "next", "email", "--from", "2027-01-01T00:00:00Z"]) == 0
    assert capsys.readouterr().out.splitlines()[2] == told
    assert "after=2027-01-01" in str(api.sent[0].url)


def test_jitter_is_told_with_the_time_at_which_it_fires_next(api: FakeApi, capsys: Printed) -> None:
    found = {**PREVIEW, "schedule": {"cron": "H 9 * * *", "jitter_seconds": 600}, "effects": []}
    api.on("GET /task-configs/email/schedule", {**found, "next_fire_at": "2030-06-02T09:06:44Z"})
    assert run(["schedule", "next", "email"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "jitter: each fires up to 10m later; next: 2030-06-02T09:06:44Z",
        "  2030-06-01T09:00:00Z  past",
        "  2030-06-02T09:00:00Z",
        "what became of those that have passed: rota schedule occurrences email",
    ]


@pytest.mark.parametrize(
    ("cron", "is_told"),
    [("H H * * *", True), ("0 h(1-5)/2 * * *", True), ("5,H 9 * * *", True), ("0 9 * * THU", False)],
)
def test_of_h_it_is_told_that_it_depends_on_the_type(api: FakeApi, capsys: Printed, cron: str, is_told: bool) -> None:
    told = "H depends on the type of the tasks: --type TYPE shows its times"
    unsaved = {**PREVIEW, "schedule": {"cron": cron}, "next_fire_at": None}
    api.on("POST /schedules:preview", {**unsaved, "type": ""})
    assert run(["schedule", "preview", cron]) == 0
    assert (told in capsys.readouterr().out) is is_told
    api.on("POST /schedules:preview", unsaved)
    assert run(["schedule", "preview", cron, "--type", "email"]) == 0
    assert told not in capsys.readouterr().out


def test_the_list_of_types_says_why_one_does_not_fire(api: FakeApi, capsys: Printed) -> None:
    when = {"cron": "0 9 * * *", "zone": "UTC"}
    api.on(
        "GET /task-configs",
        page(
            CONFIG,
            {**CONFIG, "type": "one", "schedule": when},
            {**CONFIG, "type": "two", "schedule": {**when, "paused": True}},
            {**CONFIG, "type": "three", "schedule": when, "enabled": False},
            {**CONFIG, "type": "four", "schedule": when, "next_fire_at": "2030-06-02T09:00:00Z"},
        ),
    )
    assert run(["config-type", "ls"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[-1] for line in lines] == ["-", "ended", "paused", "disabled", "2030-06-02T09:00:00Z"]


def test_schedules_are_listed_on_their_own_clocks_by_one_request(api: FakeApi, capsys: Printed) -> None:
    when, at = {"cron": "0 9 * * *", "zone": "Asia/Shanghai"}, "2030-06-02T01:00:00Z"
    many = {"at": ["2030-06-02T01:00:00Z", "2030-06-03T01:00:00Z"], "zone": "UTC"}
    found = [
        CONFIG,
        {**CONFIG, "type": "a", "schedule": when, "next_fire_at": at},
        {**CONFIG, "type": "b", "schedule": {"every_seconds": 90, "zone": "UTC", "paused": True, "pause_note": "disk"}},
        {**CONFIG, "type": "c", "schedule": {"after_end_seconds": 5, "zone": "UTC"}, "enabled": False},
        {**CONFIG, "type": "d", "schedule": many},
        {**CONFIG, "type": "e", "schedule": {"at": many["at"][:1], "zone": "UTC"}, "next_fire_at": at},
        {**CONFIG, "type": "f", "schedule": {"moon": "full"}, "next_fire_at": at},
    ]
    api.on("GET /task-configs", page(*found))
    assert run(["schedule", "ls"]) == 0
    lines = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["TYPE", "SCHEDULE", "ZONE", "STATE", "NEXT"],
        ["a", "0 9 * * *", "Asia/Shanghai", "on", "2030-06-02T09:00:00+08:00"],
        ["b", "every 1m30s", "UTC", "paused", "-"],
        ["c", "5s after its end", "UTC", "disabled", "-"],
        ["d", "at 2030-06-02T01:00:00Z and 1 more", "UTC", "ended", "-"],
        ["e", "at 2030-06-02T01:00:00Z", "UTC", "on", "2030-06-02T01:00:00Z"],
        ["f", "-", "-", "on", "2030-06-02T01:00:00Z"],
    ]
    assert len(api.sent) == 1
    assert run(["schedule", "ls", "-o", "wide"]) == 0
    assert "at 09:00 (Asia/Shanghai)" in capsys.readouterr().out
    assert run(["schedule", "ls", "-o", "name"]) == 0
    assert capsys.readouterr().out.split() == ["a", "b", "c", "d", "e", "f"]


def test_a_time_without_its_zone_is_shown_as_it_can_be_typed(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /schedules:forecast", FORECAST)
    assert run(["schedule", "forecast", "--from", "2026-03-28"]) == 2
    assert "needs a time zone, for example 2026-03-28T00:00:00Z" in capsys.readouterr().err
    assert run(["schedule", "forecast", "--from", "2026-03-28T00:00:00Z"]) == 0


@pytest.mark.parametrize(
    ("words", "route", "named"),
    [
        ("schedule forecast", "GET /schedules:forecast", ("end", "--to")),
        ("calendar put cn --country CN --years 2026-2090", "PUT /calendars/cn", ("last_year", "--years")),
    ],
)
def test_a_mistake_names_the_option_and_not_the_field(
    api: FakeApi, capsys: Printed, *, words: str, route: str, named: tuple[str, str]
) -> None:
    field, option = named
    refused = {"type": "about:blank", "title": "x", "status": 422, "code": "invalid_request", "detail": "x"}
    errors = [{"field": field, "problem": "is too late"}]
    api.on(route, httpx2.Response(422, json={**refused, "errors": errors}))
    assert run(words.split()) == 2
    assert f"error: {option}: is too late\n" in capsys.readouterr().err


def test_a_mistake_names_no_field_that_was_not_typed(api: FakeApi, capsys: Printed) -> None:
    refused = {"type": "about:blank", "title": "x", "status": 422, "code": "invalid_request", "detail": "x"}
    errors = [{"field": "end", "problem": "must be later than begin"}]
    api.on("GET /schedules:forecast", httpx2.Response(422, json={**refused, "errors": errors}))
    assert run(["schedule", "forecast"]) == 2
    assert "error: --to: must be later than --from\n" in capsys.readouterr().err


def test_revisions_say_when_and_by_whom(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /task-configs/email/revisions", page({**CONFIG, "updated_by": "ada"}))
    assert run(["config-type", "revisions", "email"]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["REVISION", "UPDATED", "BY"]
    assert line.split()[:3] == ["2", "2030-06-01T12:00:00Z", "ada"]


def test_what_clocks_do_that_are_changed_is_told(api: FakeApi, capsys: Printed) -> None:
    def effect(at: str, kind: str, *, detail: str = "") -> dict[str, Any]:
        return {"fire_at": at, "effect": kind, "detail": detail, "moved_from": None}

    effects = [
        effect("2027-03-27T01:30:00Z", "clocks_first"),
        effect("2027-03-28T01:00:00Z", "clocks_moved", detail="02:30"),
        effect("2027-03-28T01:00:00Z", "clocks_skipped", detail="02:15"),
        effect("2027-03-29T00:30:00Z", "clocks_second"),
    ]
    api.on("POST /schedules:preview", {**BERLIN, "effects": effects})
    assert run(["schedule", "preview", "30 2 * * *"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "  2027-03-27T02:30:00+01:00  past  the first of two: the clocks go back",
        "  2027-03-28  02:15 skipped: the clocks go forward",
        "  2027-03-28T03:00:00+02:00  moved from 02:30: the clocks go forward",
        "  2027-03-29T02:30:00+02:00  the second of two: the clocks go back",
    ]
