"""`rota schedule forecast` and `backfill`."""

import json
from datetime import datetime

import httpx2
import pytest

from rota.interfaces.cli.main import run
from tests.unit.interfaces.fake_api import CLUSTER, CONFIG, FORECAST, FakeApi, task_like

Printed = pytest.CaptureFixture[str]


def test_a_forecast_is_a_table_and_says_what_it_leaves_out(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /schedules:forecast", FORECAST)
    assert run(["schedule", "forecast", "--from", "2030-06-01T00:00:00Z", "--type", "email"]) == 0
    printed = capsys.readouterr()
    rows = [line.split()[1:] for line in printed.out.splitlines()[1:4]]
    assert rows == [["3", "90.0", "1.2"], ["≥2", "≥60.0", "≥0.5"], ["?", "?", "?"]]
    assert printed.out.splitlines()[4:] == [
        "at least 3 runs of 1 types",
        "TYPE  RUNS  RUN_TAKES_S  FIRST  LAST",
        "fast  ≥3    ?            -      -",
        "not foreseen: waits: waits for the end of each run",
    ]
    assert printed.err.splitlines() == [
        "from 2030-06-01T09:00:00Z on runs are missing of: fast",
        "not looked at: zeta",
        "there is more than this: ask for a shorter time, or for single types",
    ]
    bucket = {"begin": "2030-06-01T00:00:00Z", "runs": 3, "work_seconds": 90.0, "busy": 1.25, "complete": True}
    unknown = [{**bucket, "unknown_runs": number} for number in (0, 1, 3)]
    api.on("GET /schedules:forecast", {**FORECAST, "buckets": unknown})
    assert run(["schedule", "forecast"]) == 0
    rows = [line.split()[1:] for line in capsys.readouterr().out.splitlines()[1:4]]
    assert rows == [["3", "90.0", "1.2"], ["3", "≥90.0", "≥1.2"], ["3", "?", "?"]]
    whole = {"unforeseen": [], "complete": True, "known_until": None, "left_out": []}
    api.on("GET /schedules:forecast", {**FORECAST, **whole})
    assert run(["schedule", "forecast"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["schedule", "forecast", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 3
    assert run(["schedule", "forecast", "--from", "noon"]) == 2


def test_a_forecast_lists_the_types_that_fire_most(api: FakeApi, capsys: Printed) -> None:
    types = [
        {"type": f"t{number}", "runs": number, "first": None, "last": None, "run_seconds": 1.26} for number in range(12)
    ]
    api.on("GET /schedules:forecast", {**FORECAST, "types": types, "unforeseen": [], "complete": True})
    assert run(["schedule", "forecast"]) == 0
    lines = capsys.readouterr().out.splitlines()[5:]
    assert [line.split()[0] for line in lines] == ["TYPE", *(f"t{number}" for number in range(11, 1, -1)), "and"]
    assert lines[1].split() == ["t11", "11", "1.3", "-", "-"]
    assert run(["schedule", "forecast", "-o", "wide"]) == 0
    assert "t0" in capsys.readouterr().out
    api.on("GET /schedules:forecast", {**FORECAST, "types": []})
    assert run(["schedule", "forecast"]) == 0
    assert "TYPE" not in capsys.readouterr().out
    assert run(["schedule", "forecast", "-o", "name"]) == 0
    assert "TYPE" not in capsys.readouterr().out


def test_a_backfill_waits_for_a_page_before_it_asks_for_the_next(api: FakeApi, capsys: Printed) -> None:
    target = {"fire_at": "2030-06-01T09:00:00Z", "action": "run", "task_id": "7", "reason": ""}
    skipped = {"fire_at": "2030-06-01T10:00:00Z", "action": "skip", "task_id": None, "reason": "in holidays"}
    page = {"name": "backfill", "total": 2, "items": [target], "next_cursor": "abc"}
    last = {**page, "items": [skipped], "next_cursor": None}
    pages = iter([page, last])
    api.on("POST /task-configs/email:backfill", lambda _: httpx2.Response(200, json=next(pages)))
    api.on("GET /tasks/7", task_like(status="SUCCESS"))
    api.on("GET /task-configs/email", CONFIG)
    times = ["--from", "2030-06-01T00:00:00Z", "--to", "2030-06-02T00:00:00Z"]
    assert run(["schedule", "backfill", "email", *times, "--concurrency", "1", "--newest-first", "--all"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2030-06-01T09:00:00Z  run  7",
        "2030-06-01T10:00:00Z  skip  in holidays",
        "1 run, 0 ran before under the name 'backfill', 1 skipped",
    ]
    repeated = {**target, "action": "repeat"}
    pages = iter([{**page, "items": [repeated]}, last])
    api.on("GET /tasks/7", task_like(status="PROCESSING"))
    assert run(["schedule", "backfill", "email", *times, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2030-06-01T09:00:00Z  repeat  7", "and its end is not waited for"
    assert lines[-1] == "0 would run, 1 ran before under the name 'backfill', 1 skipped"
    asked = [one for one in api.bodies() if one][:2]
    assert [(one["limit"], one.get("cursor")) for one in asked] == [(1, None), (1, "abc")]
    assert (asked[0]["order"], asked[0]["only_missing"]) == ("newest", False)
    api.on("POST /task-configs/email:backfill", {**page, "items": [{**target, "task_id": None}], "next_cursor": None})
    assert run(["schedule", "backfill", "email", *times, "--dry-run", "--name", "anew"]) == 0
    assert api.bodies()[-1]["limit"] == 1000, "nothing runs, so that nothing is waited for"
    told = "1 would run, 0 ran before under the name 'anew', 0 skipped"
    assert capsys.readouterr().out.splitlines() == ["2030-06-01T09:00:00Z  run", told]


@pytest.mark.parametrize(
    ("words", "begin", "end"),
    [
        ("--from 2030-05-30", "2030-05-29T16:00:00+00:00", "2030-06-01T12:00:06+00:00"),
        ("--from 7d --to now", "2030-05-25T12:00:06+00:00", "2030-06-01T12:00:06+00:00"),
        ("--from 7d --to 2030-06-01", "2030-05-25T12:00:06+00:00", "2030-05-31T16:00:00+00:00"),
    ],
)
def test_a_backfill_takes_days_of_the_zone_and_how_long_ago(
    api: FakeApi, capsys: Printed, *, words: str, begin: str, end: str
) -> None:
    api.on("GET /task-configs/email", {**CONFIG, "schedule": {"cron": "0 9 * * *", "zone": "Asia/Shanghai"}})
    api.on("GET /cluster", CLUSTER)
    target = {"fire_at": "2030-05-30T01:00:00Z", "action": "run", "task_id": None, "reason": ""}
    api.on(
        "POST /task-configs/email:backfill",
        {"name": "backfill", "total": 1, "items": [target], "next_cursor": None},
    )
    assert run(["schedule", "backfill", "email", *words.split(), "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "2030-05-30T09:00:00+08:00  run"
    (sent,) = api.bodies()
    times = [datetime.fromisoformat(sent[name]) for name in ("begin", "end")]
    assert times == [datetime.fromisoformat(one) for one in (begin, end)]


@pytest.mark.parametrize("word", ["2030-02-30", "yesterday", "7x"])
def test_what_is_neither_a_time_nor_how_long_ago_is_refused(api: FakeApi, capsys: Printed, word: str) -> None:
    api.on("GET /task-configs/email", CONFIG)
    api.on("GET /cluster", CLUSTER)
    assert run(["schedule", "backfill", "email", "--from", word]) == 2
    assert "--from: " in capsys.readouterr().err
