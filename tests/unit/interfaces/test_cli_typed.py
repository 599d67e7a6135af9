"""What to try next repeats what was said."""

import io
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from rota.config.settings import ApiSettings
from rota.interfaces.cli.errors import CONFLICT, FAILURE, UNAVAILABLE, USAGE
from rota.interfaces.cli.main import run
from rota.interfaces.ports import suggest_ports
from tests.unit.client.dial import problem
from tests.unit.interfaces.fake_api import CONFIG, FakeApi, page, task_like


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["server", "--app", "a.py", "--config", "absent.yaml"], "try: rota server --app a.py"),
        (["doctor", "--set=api.grpc_port=8420"], "try: rota settings check --set=api.grpc_port=8420"),
        (["server", "--set", "worker.capacity=x"], "try: rota settings check --set worker.capacity=x"),
        (["server", "--set", "store.url=sqlite://a:b@c", "--set", "x=1"], "try: rota settings check --set x=1"),
    ],
)
def test_wrong_settings_are_looked_at_with_the_options_that_made_them(
    words: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(words) == USAGE
    assert last_line(capsys) == line


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("http://127.0.0.1:1", "try: rota dev --port 1"),
        ("http://nosuchhost.invalid:8420", "try: rota task ls --limit 3"),
    ],
)
def test_where_nobody_listens_another_server_is_asked_or_one_is_started_there(
    url: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rota.interfaces.cli.connect.CONNECT_WITHIN", timedelta(0))
    assert run(["task", "ls", "--url", url, "--limit", "3"]) == UNAVAILABLE
    assert last_line(capsys) == line
    if "nosuchhost" in url:
        monkeypatch.setenv("ROTA_URL", url)
        assert run(["task", "ls"]) == UNAVAILABLE
        assert last_line(capsys) == "try: unset ROTA_URL"


@pytest.mark.parametrize(
    ("detail", "line"),
    [
        ("key 'a1' already made task 711 from a different request", "try: rota task get 711"),
        ("the type is paused", "try: rota config-type get greet"),
    ],
)
def test_a_submission_that_is_refused_leads_to_the_task_or_the_type(
    api: FakeApi, capsys: pytest.CaptureFixture[str], detail: str, line: str
) -> None:
    api.on("POST /tasks", problem(409, "idempotency_mismatch", detail=detail))
    assert run(["task", "submit", "greet", "--key", "a1"]) == CONFLICT
    assert last_line(capsys) == line


@pytest.mark.parametrize("words", [["task", "cancel", "--status", "pending"], ["config-type", "rm", "email"]])
def test_a_question_that_nobody_can_answer_names_the_option_that_does(
    api: FakeApi, capsys: pytest.CaptureFixture[str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET /tasks", page(task_like()))
    api.on("GET /task-configs/email", CONFIG)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run(words) == USAGE
    assert last_line(capsys) == f"try: rota {' '.join(words)} --yes"
    assert {request.method for request in api.sent} <= {"GET"}


def test_a_no_is_no_interruption(
    api: FakeApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _prompt: "n")
    assert run(["config-type", "rm", "email"]) == FAILURE
    assert capsys.readouterr().err.endswith("nothing was done\n")
    assert not api.sent


@pytest.mark.parametrize(("verb", "status"), [("cancel", "success"), ("retry", "pending")])
def test_a_state_from_which_it_cannot_be_done_is_refused_before_anybody_is_asked(
    api: FakeApi, capsys: pytest.CaptureFixture[str], verb: str, status: str
) -> None:
    assert run(["task", verb, "--status", status, "--yes"]) == USAGE
    assert f"{status.upper()} is not among them" in capsys.readouterr().err
    assert not api.sent


def test_a_missing_argument_is_told_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion"]) == USAGE
    told = capsys.readouterr().err.splitlines()
    assert told[0].endswith("Choose from: bash, zsh, fish")
    assert told[1:] == ["try: rota completion --help"]


def test_the_version_is_an_option_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rota ")


def test_the_ports_that_are_suggested_differ_and_are_free() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        flags = suggest_ports(ApiSettings(port=port, grpc_port=port + 1), "port", "grpc_port").split()
    ports = [int(flag.rpartition("=")[2]) for flag in flags[1::2]]
    assert [flag.partition("=")[0] for flag in flags[1::2]] == ["api.port", "api.grpc_port"]
    assert len({port, port + 1, *ports}) == 4


def test_a_level_of_priority_may_have_its_name_in_a_filter(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET /tasks", page(task_like()))
    assert run(["task", "ls", "--priority", "high", "--priority", "9"]) == 0
    assert api.sent[0].url.params.get_list("priority") == ["5", "9"]
    assert run(["task", "ls", "--priority", "highest"]) == USAGE
    assert "must be 0 to 9, normal, high or urgent" in capsys.readouterr().err
    assert run(["task", "ls", "--limit", "abc"]) == USAGE
    assert "'abc' is not a valid whole number" in capsys.readouterr().err


def test_settings_that_a_server_refuses_are_not_sound(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "check", "--set", "api.host=0.0.0.0"]) == USAGE
    assert "can be reached from other machines" in capsys.readouterr().err
