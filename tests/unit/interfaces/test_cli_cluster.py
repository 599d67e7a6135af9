"""The commands beside `rota task` that ask a server."""

import io
import json
from pathlib import Path

import httpx2
import msgspec
import pytest
import yaml
from rich.console import Console

from rota.domain.ids import DEFAULT_TENANT
from rota.infrastructure.executors.http.config import check_config
from rota.interfaces.cli.config_type import FIELDS
from rota.interfaces.cli.main import run
from rota.interfaces.cli.output import rich_table
from rota.interfaces.cli.refused import PASTE
from rota.interfaces.operations.read import task_config
from rota.wire.config import PutConfig
from rota.wire.task import Retry
from tests.unit.client.dial import problem
from tests.unit.client.test_calls import END, events
from tests.unit.interfaces.fake_api import (
    CALENDAR,
    CLUSTER,
    CONFIG,
    OCCURRENCE,
    PREVIEW,
    QUEUE_TYPES,
    QUEUES,
    SETTINGS,
    STATS,
    TOKEN,
    WORKER,
    FakeApi,
    page,
    task_like,
)

Printed = pytest.CaptureFixture[str]
EVENT = {
    "id": "3-1",
    "kind": "task.completed",
    "at": "2030-06-01T12:00:00Z",
    "task_id": "7",
    "task_type": "email",
    "status": "SUCCESS",
    "attempt": 1,
    "worker_id": "9",
}


def test_types_are_applied_from_a_file_with_several(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /task-configs", page(CONFIG))
    api.on("PUT /task-configs/email", CONFIG)
    api.on("PUT /task-configs/report", {**CONFIG, "type": "report", "revision": 1})
    Path("types.yaml").write_text("type: email\ntimeout_seconds: 60\n---\n- type: report\n", "utf-8")
    assert run(["config-type", "apply", "-f", "types.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "~ email",
        "    timeout_seconds: 300.0 -> 60.0",
        "+ report",
        "email is at revision 2",
        "report is at revision 1",
        "done: 1 is new, 1 changes",
    ]
    local = {"executor": {"type": "local"}}
    assert api.bodies() == [{"timeout_seconds": 60.0, **local}, local]


def test_a_file_that_is_no_yaml_is_told_with_its_name_and_line(api: FakeApi, capsys: Printed) -> None:
    Path("types.yaml").write_text("type: email\nretry: {max_retries: 3\nname: x\n", "utf-8")
    assert run(["config-type", "apply", "-f", "types.yaml"]) == 2
    told, tried = capsys.readouterr().err.splitlines()
    assert told.startswith("error: --file: types.yaml:3 is not YAML: ")
    assert tried == "try: rota config-type apply --help"
    assert not api.sent


def test_every_field_of_a_definition_is_in_the_help_of_apply(capsys: Printed) -> None:
    assert run(["config-type", "apply", "--help"]) == 0
    told = capsys.readouterr().out
    for field in (*PutConfig.__struct_fields__, *Retry.__struct_fields__):
        assert field in told


def test_the_example_in_the_help_of_apply_is_sound() -> None:
    example = yaml.safe_load("\n".join(line for line in FIELDS.splitlines() if line.startswith("  ")))
    task_type = example.pop("type")
    body = msgspec.convert(example, PutConfig)
    assert set(example) == set(PutConfig.__struct_fields__)
    assert task_config(body, task_type=task_type, tenant_id=DEFAULT_TENANT).type == task_type
    check_config({key: value for key, value in example["executor"].items() if key != "type"})


def test_a_misspelt_field_is_told_with_the_one_that_may_be_meant(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /task-configs", page())
    Path("types.yaml").write_text("type: email\ntimeout: 5", "utf-8")
    assert run(["config-type", "apply", "-f", "types.yaml"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: types.yaml:2: email: timeout: is not known; did you mean timeout_seconds?"
    )
    assert {one.method for one in api.sent} == {"GET"}


@pytest.mark.parametrize("text", ["", "[1]", "name: x", "type: email\ntimeout: 5", "{", "a: !!python/name:os.system"])
def test_a_file_that_defines_nothing_sound_is_refused(api: FakeApi, capsys: Printed, text: str) -> None:
    api.on("GET /task-configs", page())
    Path("types.yaml").write_text(text, "utf-8")
    assert run(["config-type", "apply", "-f", "types.yaml"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "try: rota config-type apply --help"
    assert run(["config-type", "apply", "-f", "absent.yaml"]) == 2
    assert {one.method for one in api.sent} <= {"GET"}


def test_what_a_type_is_shown_as_can_be_applied_again(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /task-configs/email", CONFIG)
    assert run(["config-type", "get", "email", "-o", "yaml"]) == 0
    shown = capsys.readouterr().out
    api.on("GET /task-configs", page(CONFIG))
    api.on("PUT /task-configs/email", {**CONFIG, "revision": 3})
    Path("email.yaml").write_text(shown, "utf-8")
    assert run(["config-type", "apply", "-f", "email.yaml"]) == 0
    assert capsys.readouterr().out == "done: 1 stays\n"
    Path("email.yaml").write_text(shown.replace("priority: 0", "priority: 5"), "utf-8")
    assert run(["config-type", "apply", "-f", "email.yaml"]) == 0
    (sent,) = api.bodies()
    assert (sent["revision"], sent["retry"]["max_retries"], sent["priority"]) == (2, 3, 5)


def test_types_are_listed_paused_resumed_run_and_deleted(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET /task-configs", page(CONFIG))
    api.on("POST /task-configs/email:pause", {**CONFIG, "enabled": False})
    api.on("POST /task-configs/email:resume", CONFIG)
    api.on("POST /task-configs/email:trigger", task_like())
    api.on("DELETE /task-configs/email", httpx2.Response(204))
    for arguments in (["ls"], ["pause", "email"], ["resume", "email"], ["trigger", "email", "-p", "[1]"]):
        assert run(["config-type", *arguments]) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert run(["config-type", "rm", "email"]) == 1
    assert run(["config-type", "rm", "email", "--yes"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1].split() == ["email", "local", "yes", "300", "3", "0", "-", "-", "2", "-"]
    assert told[2:] == ["email is paused", "email is enabled", "7", "email is deleted"]
    assert api.bodies() == [{"payload": [1]}]


def test_workers_are_listed_and_steered(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /workers", page(WORKER))
    api.on("GET /workers/9", WORKER)
    api.on("POST /workers/9:drain", {**WORKER, "draining": True})
    api.on("POST /workers/9:resume", WORKER)
    api.on("PATCH /workers/9", {**WORKER, "capacity": 4})
    for arguments in (["ls"], ["drain", "9"], ["resume", "9"], ["capacity", "9", "4"], ["get", "9", "-o", "name"]):
        assert run(["worker", *arguments]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1].split() == ["9", "pod-1", "alive", "3/10", "email,report", "2030-06-01T12:00:05Z"]
    assert told[2:] == [
        "worker 9 (pod-1) drains",
        "worker 9 (pod-1) takes tasks",
        "worker 9 (pod-1) runs up to 4 at once",
        "9",
    ]
    assert api.bodies() == [{"capacity": 4}]


def test_of_many_types_the_first_are_listed_and_all_in_the_wide_form(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /workers", page({**WORKER, "types": [f"type{number}" for number in range(21)]}))
    assert run(["worker", "ls"]) == run(["worker", "ls", "-o", "wide"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[1].split()[4] == "type0,type1,type2,+18"
    assert told.count("type20") == 1


def test_options_of_a_worker_to_run_make_no_sense_elsewhere(api: FakeApi, capsys: Printed) -> None:
    assert run(["worker", "--processes", "2", "ls"]) == 2
    assert "not for ls" in capsys.readouterr().err


def test_elections_are_listed(api: FakeApi, capsys: Printed) -> None:
    begun, ended = "2030-06-01T12:00:00Z", "2030-06-01T12:05:00Z"
    lost = {"term": 3, "node": "pod-1", "begun_at": begun, "ended_at": ended, "ending": "lost", "reason": "no lease"}
    leads = {"term": 4, "node": "pod-2", "begun_at": ended, "ended_at": None, "ending": None, "reason": ""}
    api.on("GET /cluster/elections", page(leads, lost))
    assert run(["cluster", "--elections"]) == 0
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == ["TERM", "LEADER", "BEGUN", "ENDED", "HOW", "REASON"]
    assert "pod-2" in first
    assert "lost" in second
    assert "no lease" in second
    assert run(["cluster", "--elections", "-o", "name"]) == 0
    assert capsys.readouterr().out == "4\n3\n"


def test_the_audit_log_is_searched(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /audit", page())
    assert run(["audit", "ls", "--actor", "ci", "--after", "2030-06-01T12:00:00Z", "--cluster"]) == 0
    asked = dict(api.sent[-1].url.params)
    assert asked == {"limit": "51", "actor": "ci", "after": "2030-06-01T12:00:00+00:00", "cluster": "true"}
    assert run(["audit", "ls", "--before", "noon"]) == 2
    assert "--before" in capsys.readouterr().err


def test_figures_are_shown(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /queues", QUEUES)
    api.on("GET /stats", STATS)
    api.on("GET /cluster", CLUSTER)
    assert run(["queue", "ls"]) == run(["stats"]) == run(["cluster"]) == 0
    told = capsys.readouterr().out
    assert "delayed 1, assigned 0, running 3" in told
    assert "1.5 created, 1 completed, 0 failed" in told
    assert "pod-1-77 leads, term 4; store sqlite, coordinator memory" in told
    for command, wanted in ((["queue", "ls"], QUEUES), (["stats"], STATS), (["cluster"], CLUSTER)):
        assert run([*command, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out).keys() == wanted.keys()
    assert run(["cluster", "-o", "name"]) == run(["queue", "ls", "-o", "name"]) == 0
    assert capsys.readouterr().out == "pod-1-77\n5\n"


def test_the_settings_of_a_server_are_shown_with_the_node_that_answered(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /settings", SETTINGS)
    assert run(["settings", "server"]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [
        "worker.capacity 20 rota.yaml:3 live",
        "store.url mysql://rota:***@db/rota environment ROTA_STORE__URL changed: restart",
        "report.days 730 default restart",
        "of pod-1-77",
    ]
    assert run(["settings", "server", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == SETTINGS
    assert run(["settings", "server", "-o", "name"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "worker.capacity"


def test_what_waits_of_each_type_is_shown(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /queues/types", QUEUE_TYPES)
    assert run(["queue", "types"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[1].split() == ["email", "2", "1.25", "1", "3"]
    assert "these are lower bounds" in told
    assert "set aside 7, of all tenants" in told
    assert run(["queue", "types", "-o", "name"]) == 0
    assert capsys.readouterr().out == "email\n"
    assert run(["queue", "types", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == QUEUE_TYPES


def test_top_without_a_terminal_shows_one_moment(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /queues", QUEUES)
    api.on("GET /stats", STATS)
    api.on("GET /cluster", CLUSTER)
    api.on("GET /workers", page(WORKER))
    api.on("GET /tasks", page(task_like(status="PROCESSING")))
    assert run(["top"]) == 0
    told = capsys.readouterr().out
    assert "leader pod-1-77, term 4, nodes 1" in told
    assert "PENDING 2  SUCCESS 40" in told
    assert ["9", "pod-1", "alive", "3/10", "email,report", "1s"] in [row.split() for row in told.splitlines()]


def test_cells_that_do_not_fit_are_shortened_but_for_the_id() -> None:
    console = Console(width=40, file=io.StringIO())
    row = ["123456789012345678", "a_type_with_a_long_name", "PROCESSING"]
    console.print(rich_table(["ID", "TYPE", "STATUS_OF_IT"], [row], is_short=True))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined] # what was given above
    assert len(lines) == 2
    assert row[0] in lines[1]
    assert "…" in lines[1]


@pytest.mark.parametrize(("now", "state"), [("06", "alive"), ("30", "silent 25s")])
def test_nodes_that_show_themselves_no_more_are_silent(api: FakeApi, capsys: Printed, now: str, state: str) -> None:
    api.on("GET /cluster", {**CLUSTER, "now": f"2030-06-01T12:00:{now}Z"})
    assert run(["cluster"]) == 0
    head, node = capsys.readouterr().out.splitlines()[:2]
    assert head.split()[:3] == ["NODE", "STATE", "ROLES"]
    assert node.startswith(f"pod-1-77  {state}  ")


def test_events_are_printed_as_they_come(api: FakeApi, capsys: Printed) -> None:
    missed = 'id: 2\nevent: missed\ndata: {"id": "2"}\n\n'
    text = f"id: 3-1\nevent: task.completed\ndata: {json.dumps(EVENT)}\n\n"
    api.on("GET /events", events(missed, text, END))
    assert run(["events", "--after", "m1", "--type", "email", "--kind", "task.completed"]) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == ["2030-06-01T12:00:00Z", "task.completed", "7", "email", "SUCCESS", "1", "9"]
    assert "missing" in printed.err
    assert run(["events", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "3-1"


def test_tokens_are_made_listed_and_revoked(api: FakeApi, capsys: Printed) -> None:
    api.on("POST /tokens", {"token": TOKEN, "secret": "rota_5_abc"})
    api.on("GET /tokens", page(TOKEN))
    api.on("DELETE /tokens/5", httpx2.Response(204))
    assert run(["token", "create", "ci", "--role", "operator", "--expires-in", "90d"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "rota_5_abc\n"
    assert "token 5 (ci, operator) is good until it is revoked" in printed.err
    assert api.bodies() == [{"name": "ci", "role": "operator", "expires_in_seconds": 7776000.0}]
    assert run(["token", "create", "ci", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["secret"] == "rota_5_abc"
    assert run(["token", "create", "ci", "-o", "name"]) == run(["token", "ls"]) == run(["token", "revoke", "5"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("5\n")
    assert told.endswith("token 5 is revoked\n")


@pytest.mark.parametrize(
    ("arguments", "code", "attempt"),
    [
        (["config-type", "get", "x"], "task_config_not_found", "rota config-type ls"),
        (["worker", "get", "1"], "worker_not_found", "rota worker ls"),
        (["token", "revoke", "1"], "token_not_found", "rota token ls"),
    ],
)
def test_what_is_not_found_says_which_list_to_look_at(
    api: FakeApi, capsys: Printed, arguments: list[str], code: str, attempt: str
) -> None:
    method = "DELETE" if "revoke" in arguments else "GET"
    path = {"config-type": "task-configs", "worker": "workers", "token": "tokens"}[arguments[0]]
    api.on(f"{method} /{path}/{arguments[-1]}", problem(404, code))
    assert run(arguments) == 3
    assert capsys.readouterr().err.splitlines()[-1] == f"try: {attempt}"


def test_who_may_not_make_tokens_is_told_to_get_one_that_may(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /tokens", problem(403, "permission_denied"))
    assert run(["token", "ls"]) == 6
    assert capsys.readouterr().err.splitlines()[-1] == f"try: {PASTE}"


def test_a_shell_completes_commands(capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_ROTA_COMPLETE": "bash_complete", "COMP_WORDS": "rota task su", "COMP_CWORD": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        run([])
    assert capsys.readouterr().out == "plain,submit\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell: str, capsys: Printed) -> None:
    assert run(["completion", shell]) == 0
    assert "_ROTA_COMPLETE" in capsys.readouterr().out


def test_a_schedule_is_told_in_words_and_in_times(api: FakeApi, capsys: Printed) -> None:
    api.on("POST /schedules:preview", PREVIEW)
    command = ["schedule", "preview", "0 9 * * *", "--zone", "Asia/Shanghai", "--type", "email", "-n", "1"]
    assert run(command) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[:2] == ["at 09:00 (UTC)", "在 09:00 (UTC)"]
    assert [line.split() for line in shown[2:]] == [
        [*["2030-06-01T09:00:00Z", "past", "moved", "from", "2030-05-31T09:00:00Z:", "in", "holidays"]],
        [*["2030-06-02T09:00:00Z", "skipped:", "in", "holidays"]],
    ]
    schedule = {"cron": "0 9 * * *", "zone": "Asia/Shanghai"}
    assert api.bodies() == [{"schedule": schedule, "type": "email", "count": 1}]


def test_the_schedule_and_the_occurrences_of_a_type_are_shown(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /task-configs/email/schedule", PREVIEW)
    assert run(["schedule", "next", "email", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 3
    shanghai = {**CONFIG, "schedule": {"cron": "0 17 * * *", "zone": "Asia/Shanghai"}}
    api.on("GET /task-configs/email", shanghai)
    api.on("GET /task-configs/email/occurrences", page(OCCURRENCE, {**OCCURRENCE, "since": OCCURRENCE["fire_at"]}))
    assert run(["schedule", "occurrences", "email"]) == 0
    at = "2030-06-01T17:00:00+08:00"
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [[at, "SKIPPED", "-", "overlap", "-"], [at, "SKIPPED", "-", "overlap", at]]
    api.on("GET /task-configs/email/occurrences", page(OCCURRENCE))
    assert run(["schedule", "occurrences", "email", "-o", "name"]) == 0
    assert capsys.readouterr().out == "2030-06-01T09:00:00+00:00\n"


def test_a_schedule_is_paused_with_a_note_and_resumed(api: FakeApi, capsys: Printed) -> None:
    api.on("POST /task-configs/email/schedule:pause", CONFIG)
    assert run(["schedule", "pause", "email", "--note", "the disk is full"]) == 0
    assert api.bodies() == [{"note": "the disk is full"}]
    api.on("POST /task-configs/email/schedule:resume", CONFIG)
    assert run(["schedule", "resume", "email"]) == 0
    assert capsys.readouterr().out == "the schedule of email is paused\nthe schedule of email fires again\n"


def test_a_calendar_is_put_from_files_and_a_country(api: FakeApi, capsys: Printed, tmp_path: Path) -> None:
    api.on("PUT /calendars/holidays", CALENDAR)
    file, ics = tmp_path / "calendar.yaml", tmp_path / "days.ics"
    file.write_text("name: holidays\norigin: x\ndates: [2026-12-24]\nwindows: [{weekdays: [6], begin: '22:00'}]\n")
    ics.write_text("BEGIN:VCALENDAR")
    options = ["-f", str(file), "--country", "DE", "--holidays", "--years", "2026-2027", "--ics", str(ics)]
    assert run(["calendar", "put", "holidays", *options]) == 0
    known = "and knows the years 2029-2031: in others nothing fires with it"
    assert capsys.readouterr().out == f"holidays is at revision 1 {known}\n"
    written = {"dates": ["2026-12-24"], "windows": [{"weekdays": [6], "begin": "22:00"}], "ics": "BEGIN:VCALENDAR"}
    country = {"country": "DE", "country_days": "holidays", "first_year": 2026, "last_year": 2027}
    assert api.bodies() == [{**written, **country}]
    api.on("PUT /calendars/holidays", {**CALENDAR, "years": []})
    assert run(["calendar", "put", "holidays", *options]) == 0
    assert capsys.readouterr().out == "holidays is at revision 1\n"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "Give --file, --country or --ics"),
        (["--country", "DE", "--years", "soon"], "'soon' is not a year"),
        (["-f", "{}/list.yaml"], "is no calendar"),
        (["-f", "{}/broken.yaml"], "is not YAML"),
        (["-f", "{}/none.yaml"], "cannot be read"),
        (["-f", "{}/empty.yaml"], "empty.yaml has none of the parts of a calendar, such as dates"),
    ],
)
def test_a_calendar_that_cannot_be_read_is_not_sent(
    options: list[str], told: str, capsys: Printed, tmp_path: Path
) -> None:
    (tmp_path / "list.yaml").write_text("[1]")
    (tmp_path / "broken.yaml").write_text("{")
    (tmp_path / "empty.yaml").write_text("{}")
    assert run(["calendar", "put", "x", *(one.replace("{}", str(tmp_path)) for one in options)]) == 2
    assert told in capsys.readouterr().err


def test_calendars_are_listed_shown_and_deleted(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /calendars", page(CALENDAR))
    assert run(["calendar", "ls"]) == 0
    assert "2029-2031" in capsys.readouterr().out
    api.on("GET /calendars/holidays", CALENDAR)
    assert run(["calendar", "get", "holidays", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["dates"] == ["2030-12-25"]
    api.on("DELETE /calendars/holidays", httpx2.Response(204))
    assert run(["calendar", "rm", "holidays", "-y"]) == 0
    assert capsys.readouterr().out == "holidays is deleted\n"
