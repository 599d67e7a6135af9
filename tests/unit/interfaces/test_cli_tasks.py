"""`rota task`, and what it makes of a server's answers."""

import io
import json
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from rich.text import Text

from rota.interfaces.cli.errors import USAGE
from rota.interfaces.cli.main import run
from rota.interfaces.cli.refused import PASTE
from tests.unit.client.dial import problem
from tests.unit.client.test_calls import END, events, line
from tests.unit.interfaces.fake_api import CONFIG, FakeApi, page, task_like

Printed = pytest.CaptureFixture[str]
EXPLAINED = {
    **dict.fromkeys(("due_at", "worker_id", "workers", "room", "running", "max_concurrent", "rate_per_second")),
    **dict.fromkeys(("global_rate", "ready")),
    **{"task_id": "7", "status": "PENDING", "reason": "no_worker_for_type", "sentence": "No worker.", "attempt": 0},
}
NASTY = "\x1b[31mred\x07\u202egnp\r\n\x9b2J"


def test_a_list_is_plain_columns_where_nobody_looks(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /tasks", page(task_like(), task_like(id="6", status="SUCCESS", name="hello")))
    assert run(["task", "ls"]) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["ID", "TYPE", "STATUS", "PRIORITY", "ATTEMPT", "CREATED", "COMPLETED"]
    assert rows[2] == ["6", "email", "SUCCESS", "0", "0", "2030-06-01T12:00:00Z", "-"]
    assert run(["task", "ls", "-o", "wide"]) == 0
    assert "hello" in capsys.readouterr().out


def test_other_forms_are_for_programs(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /tasks", page(task_like()))
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        assert run(["task", "ls", "-o", form]) == 0
        (found,) = read(capsys.readouterr().out)
        assert (found["id"], found["timeout_seconds"]) == ("7", 60)
        assert found["created_at"] == "2030-06-01T12:00:00.000000Z"
    assert run(["task", "ls", "-o", "name"]) == 0
    assert capsys.readouterr().out == "7\n"


def test_filters_become_the_query(api: FakeApi) -> None:
    api.on("GET /tasks", page())
    filters = ["--status", "failed", "--status", "TIMEOUT", "--type", "email", "--metadata", "order=7", "-q", "ada"]
    assert run(["task", "ls", *filters, "--created-after", "2030-01-01T00:00:00Z", "--priority", "5", "--full"]) == 0
    query = api.sent[0].url.params.multi_items()
    assert [value for key, value in query if key == "status"] == ["FAILED", "TIMEOUT"]
    assert {("metadata.order", "7"), ("type", "email"), ("q", "ada"), ("priority", "5"), ("full", "true")} <= set(query)


def test_a_list_stops_at_its_limit_and_says_so(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /tasks", page(*[task_like()] * 3))
    assert run(["task", "ls", "--limit", "2", "-o", "name"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "7\n7\n"
    assert "--limit" in printed.err


def test_a_list_can_be_watched_until_it_is_interrupted(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET /tasks", page(task_like()))
    rounds: list[object] = []

    def end(_duration: object) -> None:
        rounds.append(None)
        if len(rounds) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("rota.interfaces.cli.connect.pause", end)
    assert run(["task", "ls", "--watch", "-o", "name"]) == 1
    assert capsys.readouterr().out == "7\n7\n"


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_what_a_task_wrote_cannot_steer_the_terminal(api: FakeApi, capsys: Printed, form: str) -> None:
    error = {"code": "x", "message": NASTY, "detail": f"line 1\n{NASTY}", "retryable": True}
    found = task_like(name=NASTY, error=error, payload={NASTY: [NASTY]}, metadata={"k": NASTY})
    api.on("GET /tasks", page(found))
    api.on("GET /tasks/7", found)
    assert run(["task", "ls", "-o", form]) == run(["task", "get", "7", "-o", form]) == 0
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e", "\r", "\x9b"} & set(printed)


def test_what_a_server_says_cannot_either(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /tasks/7", problem(404, "task_not_found", detail=f"no {NASTY}"))
    assert run(["task", "get", "7"]) == 3
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("key", ["--key", "--idempotency-key"])  # the name that the API and Python have for it, too
def test_a_task_is_submitted_and_its_id_printed(api: FakeApi, capsys: Printed, key: str) -> None:
    api.on("POST /tasks", task_like())
    options = ["--priority", "high", "--delay", "5m", "--metadata", "order=7", "--retries", "1", key, "k"]
    assert run(["task", "submit", "email", "--payload", '{"to": "ada"}', *options]) == 0
    assert capsys.readouterr().out == "7\n"
    (body,) = api.bodies()
    assert (body["payload"], body["priority"], body["delay_seconds"]) == ({"to": "ada"}, "high", 300)
    assert (body["metadata"], body["retry"]["max_retries"], body["idempotency_key"]) == ({"order": "7"}, 1, "k")


def test_a_retry_policy_may_be_given_by_its_rules(api: FakeApi) -> None:
    api.on("POST /tasks", task_like())
    rules = ["--retry-on", "5xx", "--retry-on", "UNAVAILABLE", "--give-up-on", "501", "--total-timeout", "1h"]
    assert run(["task", "submit", "email", *rules]) == 0
    (body,) = api.bodies()
    assert (body["retry"]["retry_on"], body["retry"]["give_up_on"]) == (["5xx", "UNAVAILABLE"], ["501"])
    assert (body["retry"]["total_timeout_seconds"], body["retry"]["max_retries"]) == (3600, 3)


def test_a_payload_comes_from_a_file_or_from_standard_input(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.on("POST /tasks", task_like())
    Path("payload.json").write_text("[1]", "utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO("[2]"))
    assert run(["task", "submit", "email", "-p", "@payload.json"]) == 0
    assert run(["task", "submit", "email", "-p", "-"]) == 0
    assert [body["payload"] for body in api.bodies()] == [[1], [2]]


@pytest.mark.parametrize(
    "bad",
    [
        ["--payload", "{"],
        ["--payload", "@absent.json"],
        ["--delay", "soon"],
        ["--at", "tomorrow"],
        ["--at", "2030-01-01T00:00:00"],
        ["--metadata", "order"],
        ["--retries", "-1"],
        ["--retry-on", "6xx"],
        ["--give-up-on", "a b"],
        ["--total-timeout", "soon"],
        ["--wait", "--wait-timeout", "soon"],
    ],
)
def test_a_bad_option_is_told_and_nothing_is_sent(api: FakeApi, capsys: Printed, bad: list[str]) -> None:
    assert run(["task", "submit", "email", *bad]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "try: rota task submit --help"
    assert not api.sent


@pytest.mark.parametrize(("status", "code"), [("SUCCESS", 0), ("FAILED", 1), ("CANCELLED", 1)])
def test_waiting_for_a_task_that_does_not_succeed_fails(api: FakeApi, capsys: Printed, status: str, code: int) -> None:
    api.on("POST /tasks", task_like())
    api.on("GET /tasks/7", task_like(status=status))
    assert run(["task", "submit", "email", "--wait", "-o", "json"]) == code
    assert json.loads(capsys.readouterr().out)["status"] == status


def test_waiting_for_too_long_fails_and_says_where_to_look(api: FakeApi, capsys: Printed) -> None:
    api.on("POST /tasks", task_like())
    api.on("GET /tasks/7", task_like())
    words = ["--wait", "--wait-timeout", "0s", "--url", "http://127.0.0.1:9000"]
    assert run(["task", "submit", "email", *words]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "task 7 is submitted",
        "error: task 7 has not ended within 0s",
        "try: rota task explain 7 --url http://127.0.0.1:9000",
    ]


def test_the_record_is_printed_or_followed(api: FakeApi, capsys: Printed) -> None:
    entry = json.loads(line(1, "hello\nworld").partition("data: ")[2])
    change = entry | {"kind": "STATE_CHANGE", "from_status": "PENDING", "to_status": "PROCESSING", "message": ""}
    change["worker_id"] = "9"
    failed = entry | {"kind": "ERROR", "detail": "Traceback\n  boom"}
    waiting = entry | {"from_status": "PROCESSING", "to_status": "PROCESSING", "message": "waits for a callback"}
    api.on("GET /tasks/7/logs", page(change, failed, waiting))
    assert run(["task", "logs", "7"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "2030-06-01T12:00:00.000Z  STATE_CHANGE  PENDING → PROCESSING  #1  worker 9"
    assert told[1:-1] == ["2030-06-01T12:00:00.000Z  ERROR  hello\\nworld", "    Traceback", "      boom"]
    assert (told[-1].endswith("  waits for a callback"), "→" in told[-1]) == (True, False)
    api.on("GET /tasks/7/logs", events(line(1), line(2, "bye"), END))
    assert run(["task", "logs", "-f", "7", "-o", "json"]) == 0
    assert [json.loads(text)["message"] for text in capsys.readouterr().out.splitlines()] == ["hello", "bye"]


@pytest.mark.parametrize(("status", "code"), [("SUCCESS", 0), ("TIMEOUT", 1)])
def test_watching_a_task_ends_as_the_task_did(api: FakeApi, capsys: Printed, status: str, code: int) -> None:
    change = line(3).replace('"to_status":null', f'"to_status":"{status}"')
    api.on("GET /tasks/7/logs", events(line(1), change, END))
    api.on("GET /tasks/7", task_like(status=status))
    assert run(["task", "watch", "7"]) == code
    assert capsys.readouterr().out.count("\n") == 1


def test_who_waits_for_a_task_that_gets_nowhere_is_told_why_once(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter(["PENDING", "SUCCESS"])
    monkeypatch.setattr("rota.interfaces.cli.task_submit.PATIENCE", timedelta(0))
    api.on("POST /tasks", task_like())
    api.on("GET /tasks/7", lambda _request: httpx2.Response(200, json=task_like(status=next(states))))
    api.on("GET /tasks/7/explain", {**EXPLAINED, "sentence": "No worker has this type."})
    assert run(["task", "submit", "email", "--wait"]) == 0
    assert capsys.readouterr().err.splitlines()[1:] == ["PENDING: No worker has this type."]


def test_a_task_that_runs_is_waited_for_in_silence(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter(["PROCESSING", "SUCCESS"])
    monkeypatch.setattr("rota.interfaces.cli.task_submit.PATIENCE", timedelta(0))
    api.on("POST /tasks", task_like())
    api.on("GET /tasks/7", lambda _request: httpx2.Response(200, json=task_like(status=next(states))))
    api.on("GET /tasks/7/explain", {**EXPLAINED, "status": "PROCESSING"})
    assert run(["task", "submit", "email", "--wait"]) == 0
    assert len(capsys.readouterr().err.splitlines()) == 1


class Sign:
    """A spinner that remembers what it showed."""

    def __init__(self, text: str) -> None:
        self.texts = [text]

    def update(self, text: Text) -> None:
        self.texts.append(text.plain)


def test_who_looks_while_a_task_is_waited_for_sees_how_far_it_got(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = {"status": "PROCESSING", "progress": {"fraction": 0.5, "message": "half\x1bway"}}
    sign = Sign("")
    monkeypatch.setattr("rota.interfaces.cli.task_submit.PATIENCE", timedelta(0))
    monkeypatch.setattr("rota.interfaces.cli.task_submit.LOOK_EVERY", timedelta(milliseconds=1))
    monkeypatch.setattr("rota.interfaces.cli.task_submit.spinner", lambda _text: nullcontext(sign))
    api.on("POST /tasks", task_like())

    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=task_like(**({"status": "SUCCESS"} if len(sign.texts) > 1 else half)))

    api.on("GET /tasks/7", answer)
    api.on("GET /tasks/7/explain", {**EXPLAINED, "status": "PROCESSING"})
    assert run(["task", "submit", "email", "--wait"]) == 0
    assert "waiting for task 7: 50% half\\eway" in sign.texts


@pytest.mark.parametrize(
    ("task_type", "told"),
    [
        ("emial", "did you mean 'email'?"),
        ("ad", "did you mean 'add'?"),
        ("zzz", "start a worker that has it, or create it"),
    ],
)
def test_a_type_that_nobody_has_is_told_with_the_nearest(
    api: FakeApi, capsys: Printed, task_type: str, told: str
) -> None:
    api.on("POST /tasks", problem(422, "invalid_request", errors=[{"field": "type", "problem": "no task config"}]))
    api.on("GET /task-configs", page(CONFIG, *({**CONFIG, "type": other} for other in ("bad", "add"))))
    assert run(["task", "submit", task_type]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: type: there is no task config for {task_type!r}; {told}",
        "try: rota config-type ls",
    ]


@pytest.mark.parametrize("field", ["type", "priority"])
def test_any_other_mistake_in_a_submit_is_told_as_the_server_does(api: FakeApi, capsys: Printed, field: str) -> None:
    api.on("POST /tasks", problem(422, "invalid_request", errors=[{"field": field, "problem": "is disabled"}]))
    api.on("GET /task-configs", page(CONFIG))
    assert run(["task", "submit", "email"]) == 2
    assert capsys.readouterr().err.splitlines() == [f"error: {field}: is disabled", "try: rota task submit --help"]


def test_why_a_task_waits_is_one_sentence(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /tasks/7/explain", EXPLAINED)
    assert run(["task", "explain", "7"]) == 0
    assert capsys.readouterr().out == "PENDING: No worker.\n"
    assert run(["task", "explain", "7", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "no_worker_for_type"


def test_a_waiting_task_is_changed(api: FakeApi, capsys: Printed) -> None:
    api.on("PATCH /tasks/7", task_like(priority=9))
    assert run(["task", "amend", "7", "--priority", "9", "--at", "2030-01-01T00:00:00Z", "-o", "json"]) == 0
    assert api.bodies() == [{"priority": 9, "scheduled_at": "2030-01-01T00:00:00Z"}]
    assert json.loads(capsys.readouterr().out)["priority"] == 9


def test_tasks_are_cancelled_by_id_and_one_that_cannot_be_keeps_none_back(api: FakeApi, capsys: Printed) -> None:
    api.on("POST /tasks/7:cancel", task_like(status="CANCELLED"))
    api.on("POST /tasks/6:cancel", problem(409, "illegal_transition", detail="task 6 is SUCCESS"))
    assert run(["task", "cancel", "6", "7", "--reason", "wrong"]) == 4
    printed = capsys.readouterr()
    assert printed.out == "7 CANCELLED\n"
    assert printed.err == "error: task 6 is SUCCESS\ntry: rota task get 6\n"
    assert api.bodies() == [{"reason": "wrong"}] * 2


def test_a_conflict_says_where_to_look(api: FakeApi, capsys: Printed) -> None:
    api.on("POST /tasks/6:cancel", problem(409, "illegal_transition", detail="task 6 is SUCCESS"))
    assert run(["task", "cancel", "--reason", "3", "60"]) == 3
    capsys.readouterr()
    assert run(["task", "cancel", "--reason", "twice", "6"]) == 4
    assert capsys.readouterr().err.splitlines()[-1] == "try: rota task get 6"


@pytest.mark.parametrize("verb", ["cancel", "retry", "reprioritise"])
def test_all_that_match_are_counted_and_asked_for_first(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    status = "FAILED" if verb == "retry" else "PENDING"
    api.on("GET /tasks", page(*[task_like()] * 3))
    api.on(f"POST /tasks:{verb}", {"matched": 3, "changed": 2, "skipped": 1, "has_more": False})
    monkeypatch.setattr("sys.stdin", io.StringIO("n\ny\n"))
    chosen = ["task", verb, "--type", "email", "--status", status]
    chosen += ["--to", "high"] if verb == "reprioritise" else []
    assert run(chosen) == 1
    assert [request.method for request in api.sent] == ["GET"]
    assert run(chosen) == 0
    assert run([*chosen, "--yes"]) == 0
    printed = capsys.readouterr()
    assert f"{verb} 3 tasks with status {status}, type email?" in printed.err
    assert f"2 of 3 tasks: {verb} done, 1 skipped" in printed.out
    assert [body["type"] for body in api.bodies()] == [["email"]] * 2


def test_failed_tasks_are_what_is_done_again_unless_others_are_named(api: FakeApi) -> None:
    api.on("GET /tasks", page(task_like()))
    api.on("POST /tasks:retry", {"matched": 1, "changed": 1, "skipped": 0, "has_more": False})
    assert run(["task", "retry", "--type", "email", "--yes"]) == 0
    assert api.bodies()[0]["status"] == ["FAILED", "TIMEOUT"]


def test_tasks_are_made_urgent_by_id_or_by_what_matches(api: FakeApi, capsys: Printed) -> None:
    api.on("PATCH /tasks/7", task_like(priority=9))
    assert run(["task", "reprioritise", "--to", "urgent", "7"]) == 0
    assert capsys.readouterr().out == "7 9\n"
    assert api.bodies() == [{"priority": 9}]
    api.on("GET /tasks", page(task_like()))
    api.on("POST /tasks:reprioritise", {"matched": 1, "changed": 1, "skipped": 0, "has_more": False})
    assert run(["task", "reprioritise", "--to", "5", "--priority", "normal", "--yes"]) == 0
    assert api.bodies()[1] == {"status": ["BLOCKED", "PENDING", "RETRYING"], "priority": [0], "new_priority": 5}


@pytest.mark.parametrize(
    "arguments",
    [["--type", "email"], ["--to", "10", "7"], ["--to", "soon", "7"], ["--to", "5", "--status", "PROCESSING"]],
)
def test_how_urgent_is_said_and_only_what_waits_is_meant(api: FakeApi, arguments: list[str]) -> None:
    assert run(["task", "reprioritise", *arguments]) == 2
    assert not api.sent


def test_nothing_that_matches_is_no_failure(api: FakeApi, capsys: Printed) -> None:
    api.on("GET /tasks", page())
    assert run(["task", "cancel", "--type", "email"]) == 0
    assert capsys.readouterr().out == (
        "no task matches: type email, status BLOCKED or PENDING or PROCESSING or RETRYING\n"
    )


@pytest.mark.parametrize("arguments", [["cancel"], ["retry"], ["cancel", "7", "--type", "email"]])
def test_ids_or_filters_must_be_given_and_not_both(api: FakeApi, arguments: list[str]) -> None:
    assert run(["task", *arguments]) == 2
    assert not api.sent


def test_a_rerun_prints_the_new_id(api: FakeApi, capsys: Printed) -> None:
    api.on("POST /tasks/6:retry", task_like(rerun_of="6"))
    assert run(["task", "retry", "6"]) == 0
    assert capsys.readouterr() == ("7\n", "task 6 is run again as task 7\n")
    assert not api.bodies()


def test_a_task_is_run_again_with_other_input(api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    api.on("POST /tasks/6:retry", task_like(rerun_of="6"))
    Path("payload.json").write_text('{"to": "bob"}', "utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO('{"to": "eve"}'))
    for payload in ('{"to": "ada"}', "@payload.json", "-"):
        assert run(["task", "retry", "6", "--payload", payload]) == 0
        assert capsys.readouterr() == ("7\n", "task 6 is run again as task 7, with other input\n")
    assert api.bodies() == [{"payload": {"to": name}} for name in ("ada", "bob", "eve")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["6", "--payload", "{"], "--payload: is not JSON"),
        (["6", "--payload", "@absent.json"], "--payload: absent.json cannot be read"),
        (["6", "--payload", "null"], "--payload: is null"),
        (["--type", "email", "--yes", "--payload", "{}"], "--payload is for tasks by id"),
    ],
)
def test_other_input_that_makes_no_sense_runs_nothing_again(
    api: FakeApi, capsys: Printed, arguments: list[str], told: str
) -> None:
    assert run(["task", "retry", *arguments]) == 2
    assert told in capsys.readouterr().err
    assert not api.sent


@pytest.mark.parametrize(
    ("answer", "code", "attempt"),
    [
        (problem(401, "unauthenticated"), 6, PASTE),
        (problem(403, "permission_denied"), 6, PASTE),
        (problem(404, "task_not_found"), 3, "rota task ls"),
        (problem(422, "invalid_request"), 2, "rota task get --help"),
        (problem(500, "internal"), 1, "rota doctor"),
    ],
)
def test_each_refusal_has_its_exit_code_and_the_next_command(
    api: FakeApi, capsys: Printed, answer: Any, code: int, attempt: str
) -> None:
    api.on("GET /tasks/7", answer)
    assert run(["task", "get", "7"]) == code
    assert capsys.readouterr().err.splitlines()[-1] == f"try: {attempt}"


def test_a_server_that_is_away_is_unavailable(api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("connection refused")

    api.on("GET /cluster", refuse)
    assert run(["cluster"]) == 5
    said = ["error: no answer from http://127.0.0.1:8420: connection refused", "try: rota dev"]
    assert capsys.readouterr().err.splitlines() == said
    assert len(api.sent) == 1
    api.on("GET /events", refuse)
    assert run(["events"]) == 5
    assert capsys.readouterr().err.splitlines() == said
    api.sent.clear()
    monkeypatch.setattr("rota.interfaces.cli.connect.CONNECT_WITHIN", timedelta(seconds=0.2))
    assert run(["cluster", "--url", "http://rota.example"]) == 5
    assert len(api.sent) > 1


def test_the_token_of_a_server_for_development_is_found(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.on("GET /tasks", page())
    Path(".rota").mkdir()
    Path(".rota/token").write_text("rota_dev\n", "utf-8")
    assert run(["task", "ls"]) == 0
    monkeypatch.setenv("ROTA_TOKEN", "rota_own")
    assert run(["task", "ls"]) == 0
    assert [request.headers["authorization"] for request in api.sent] == ["Bearer rota_dev", "Bearer rota_own"]


def test_on_a_terminal_a_table_has_colours_and_no_markup(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.interfaces.cli.output.is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NO_COLOR", raising=False)
    api.on("GET /tasks", page(task_like(status="FAILED", type="[red]email")))
    assert run(["task", "ls"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b[31mFAILED" in printed
    assert "[red]email" in printed


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ('{"name": NaN}', "payload.name: is NaN"),
        ('{"a": [1e999]}', "payload.a[0]: is infinite or too large"),
        ('{"a": {"b": 1, "b": 2}}', "payload.a.b: is given twice"),
        ('{"a": "\\ud800"}', "payload.a: is not valid Unicode"),
    ],
)
def test_a_payload_that_the_api_refuses_is_not_sent(
    api: FakeApi, capsys: pytest.CaptureFixture[str], payload: str, told: str
) -> None:
    assert run(["task", "submit", "email", "--payload", payload]) == USAGE
    assert told in capsys.readouterr().err
    assert not api.bodies()
