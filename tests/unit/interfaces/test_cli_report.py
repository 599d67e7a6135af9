"""`rota report`."""

import csv
import json
from datetime import datetime, timedelta

import pytest

from rota.interfaces.cli.main import run
from rota.interfaces.cli.report import sparkline
from tests.unit.interfaces.fake_api import CLUSTER, FIGURES, NO_DURATIONS, REPORT, FakeApi

Printed = pytest.CaptureFixture[str]


def test_a_report_is_a_table_by_type_and_bars_by_day(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /reports", REPORT)
    assert run(["report", "--zone", "Asia/Shanghai"]) == 0
    told = capsys.readouterr().out
    assert all(part in told for part in ("TYPE", "P95", "email", "80.0%", "1.5s", "▁█"))
    bars = [line.split() for line in told.splitlines() if line.startswith("2030")]
    assert [(day, number, len(bar)) for day, number, bar, *_ in bars] == [
        ("2030-06-01", "10", 4),
        ("2030-06-02", "100", 40),
    ]
    assert "10 ended, 80.0% succeeded, 2 retries\nslowest: email\nmost failing: email\n" in told
    assert dict(api.sent[0].url.params) == {"by": "day", "zone": "Asia/Shanghai"}


def test_hours_are_those_of_the_zone(api: FakeApi, capsys: Printed) -> None:
    nothing = {**FIGURES, "succeeded": 0, "failed": 0, "timed_out": 0, "success_rate": None, "run": NO_DURATIONS}
    items = [{"start": "2030-05-31T16:00:00Z", "end": "2030-05-31T17:00:00Z", "type": "email", **nothing}]
    types = [{"type": "email", **nothing}]
    api.on(
        "GET /reports",
        {**REPORT, "by": "hour", "items": items, "types": types, "totals": nothing, "slowest": [], "most_failing": []},
    )
    assert run(["report", "--by", "hour"]) == 0
    told = capsys.readouterr().out
    assert "2030-06-01 00:00          0" in told
    assert told.endswith("0 ended, - succeeded, 2 retries\n")


def test_how_long_ago_is_counted_by_the_clock_of_the_server(api: FakeApi) -> None:
    api.on("GET /cluster", CLUSTER)
    api.on("GET /reports", REPORT)
    until = ["--to", "2030-01-02T00:00:00Z"]
    assert run(["report", "--from", "12h", *until, "--type", "a", "--type", "b"]) == 0
    asked = api.sent[-1].url.params
    now = datetime.fromisoformat(str(CLUSTER["now"]))
    assert datetime.fromisoformat(asked["from"]) == now - timedelta(hours=12)
    assert datetime.fromisoformat(asked["to"]) == datetime.fromisoformat("2030-01-02T00:00:00Z")
    assert asked.get_list("task_type") == ["a", "b"]


@pytest.mark.parametrize("text", ["noon", "7x", "2030-01-01T00:00:00", ""])
def test_what_is_no_time_is_refused(api: FakeApi, capsys: Printed, text: str) -> None:
    assert run(["report", "--from", text]) == 2
    assert "--from" in capsys.readouterr().err
    assert api.sent == []


def test_a_report_is_printed_for_programs(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /reports", REPORT)
    assert run(["report", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == REPORT.keys()
    assert run(["report", "-o", "name"]) == 0
    assert capsys.readouterr().out == "email\n"
    assert run(["report", "--csv"]) == 0
    first, second = csv.DictReader(capsys.readouterr().out.splitlines())
    assert (first["succeeded"], second["succeeded"], first["wait_p50_seconds"]) == ("8", "98", "")


def test_where_nothing_happened_it_says_so(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /reports", {**REPORT, "items": [], "types": []})
    assert run(["report"]) == 0
    assert "nothing happened in this time" in capsys.readouterr().err


def test_a_sparkline_goes_up_with_its_numbers() -> None:
    assert sparkline([0, 1, 4, 8]) == " ▁▄█"
    assert sparkline([0, 0]) == "  "
    assert sparkline([]) == ""
