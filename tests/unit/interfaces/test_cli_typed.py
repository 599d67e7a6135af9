"""What to try next repeats what was said."""

import io
import os
import shlex
import socket
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from rota.client.folder import PLACE_FILE
from rota.config.settings import ApiSettings
from rota.interfaces.cli.errors import CONFLICT, FAILURE, NOT_FOUND, UNAVAILABLE, USAGE
from rota.interfaces.cli.main import cli, run
from rota.interfaces.cli.typed import read_typed
from rota.interfaces.ports import suggest_ports
from tests.unit.client.dial import problem
from tests.unit.interfaces.fake_api import CONFIG, FakeApi, page, task_like

GUESS = "perhaps it is api.grpc_port, and the API over HTTP is at api.port"


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["server", "--app", "a.py", "--config", "absent.yaml"], "try: rota server --app a.py"),
        (["doctor", "--set=api.grpc_port=8420"], "try: rota settings check --set=api.grpc_port=8420"),
        (["server", "--set", "worker.capacity=x"], "try: rota settings check --set worker.capacity=x"),
        (["doctor", "--config", "secrets.yaml", "--set=x=1"], "try: rota doctor --set=x=1"),
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
    url: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # a rota dev may run where the tests do
    monkeypatch.setattr("rota.interfaces.cli.connect.CONNECT_WITHIN", timedelta(0))
    assert run(["task", "ls", "--url", url, "--limit", "3"]) == UNAVAILABLE
    assert last_line(capsys) == line
    monkeypatch.setenv("ROTA_URL", url)
    assert run(["task", "ls"]) == UNAVAILABLE
    is_elsewhere = "nosuchhost" in url
    assert last_line(capsys) == f"try: {'unset ROTA_URL' if is_elsewhere else 'rota server --set api.port=1'}"


def test_where_nobody_listens_the_rota_dev_of_this_folder_is_asked_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    PLACE_FILE.parent.mkdir()
    PLACE_FILE.write_text(f"{os.getpid()} http://127.0.0.1:2\n", "utf-8")
    words = ["task", "ls", "--limit", "3"]
    monkeypatch.delenv("ROTA_URL", raising=False)
    assert run([*words, "--url", "http://127.0.0.1:1"]) == UNAVAILABLE
    assert last_line(capsys) == "try: rota task ls --limit 3"
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:1")
    assert run(words) == UNAVAILABLE
    assert last_line(capsys) == "try: unset ROTA_URL"
    assert run([*words, "--url", "http://127.0.0.1:1"]) == UNAVAILABLE
    assert last_line(capsys) == "try: rota task ls --limit 3 --url http://127.0.0.1:2", "ROTA_URL is as wrong"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--set", "store.url=sqlite://a:hunter2@c", "--set", "x=1"],
            "try: ROTA_STORE__URL='sqlite://a:…@c' rota settings check --set x=1",
        ),
        (
            ["--set=http.secrets={a: hunter2}", "--set", "worker.capacity=x"],
            "try: ROTA_HTTP__SECRETS='…' rota settings check --set worker.capacity=x",
        ),
        (["--set", "no.such_token=hunter2"], "try: rota settings check --set 'no.such_token=…'"),
    ],
)
def test_a_secret_goes_into_its_variable_and_is_not_written_again(
    words: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["server", *words]) == USAGE
    assert last_line(capsys) == line


def test_files_are_not_secrets_and_payloads_may_hold_some(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    typed = read_typed(
        cli,
        [
            *("task", "submit", "token_mail", "--url", "https://a.example", "--name=password reset"),
            *("-p", '{"to": "ada", "password": "hunter2"}', "--metadata", "api_key=hunter2", "--metadata", "a=1"),
        ],
    )
    again = (
        'rota task submit token_mail \'--name=password reset\' -p \'{"to": "ada", "password": "…"}\' '
        "--metadata api_key=… --metadata a=1"
    )
    assert typed.again(without="--url").replace("'api_key=…'", "api_key=…") == again
    kept = read_typed(cli, ["server", "--config", "/run/secrets/rota.yaml", "--app", "tokens.py", "--set", "a.b=1"])
    assert kept.again() == "rota server --config /run/secrets/rota.yaml --app tokens.py --set a.b=1"
    assert kept.beside("rota db upgrade") == "rota db upgrade --config /run/secrets/rota.yaml --set a.b=1"


def test_what_was_the_subject_is_not_the_value_of_an_option() -> None:
    assert read_typed(cli, ["task", "cancel", "--reason", "4711471147114711", "7"]).subject == "7"
    assert read_typed(cli, ["config-type", "rollback", "email", "1"]).subject == "email"
    assert read_typed(cli, ["task", "submit", "-p", "-", "email"]).subject == "email"


def test_what_to_try_asks_the_same_server(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["task", "get", "7", "--url", "http://127.0.0.1:9"]) == NOT_FOUND
    assert last_line(capsys) == "try: rota task ls --url http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("more", "line"),
    [({"task_id": "711"}, "try: rota task get 711"), ({}, "try: rota config-type get greet")],
)
def test_a_submission_that_is_refused_leads_to_the_task_or_the_type(
    api: FakeApi, capsys: pytest.CaptureFixture[str], more: dict[str, str], line: str
) -> None:
    api.on("POST /tasks", problem(409, "idempotency_mismatch", detail="task 9 is not meant", **more))
    assert run(["task", "submit", "greet", "--key", "a1"]) == CONFLICT
    assert last_line(capsys) == line


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("http://127.0.0.1:9711", "http://127.0.0.1:9710"),
        ("http://rota.example:8421", "http://rota.example:8420"),
        ("http://rota.example", "http://rota.example:8420"),
        ("http://[::1]:8421", "http://[::1]:8420"),
    ],
)
def test_a_port_that_does_not_speak_http_leads_to_the_one_that_does(
    api: FakeApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, url: str, meant: str
) -> None:
    def garble(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.RemoteProtocolError("illegal request line")

    api.on("GET /tasks", garble)
    api.on("GET /events", garble)
    for words in (["task", "ls", "--limit", "3"], ["events"]):
        assert run([*words, "--url", url]) == UNAVAILABLE
        first, last = capsys.readouterr().err.splitlines()
        assert first == f"error: {url} does not speak HTTP/1.1; {GUESS}"
        assert shlex.split(last.removeprefix("try: ")) == ["rota", *words, "--url", meant]
    monkeypatch.setenv("ROTA_URL", url)
    assert run(["task", "ls"]) == UNAVAILABLE
    assert last_line(capsys) == f"try: export ROTA_URL={shlex.quote(meant)}"
    assert len(api.sent) == 3, "nothing was tried again"


def test_the_usual_port_in_other_hands_leads_to_a_server_of_ones_own(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    def garble(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.RemoteProtocolError("illegal status line: bytearray(b'x')")

    api.on("GET /tasks", garble)
    assert run(["task", "ls"]) == UNAVAILABLE
    assert last_line(capsys) == "try: rota dev"


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("https://127.0.0.1:8420", "rota task ls --url http://127.0.0.1:8420"),
        ("https://rota.example:8420", "rota task ls"),  # a token must not go there in clear text
    ],
)
def test_a_port_that_does_not_speak_tls_is_told_as_such(
    api: FakeApi, capsys: pytest.CaptureFixture[str], url: str, line: str
) -> None:
    def answer_in_clear(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")

    api.on("GET /tasks", answer_in_clear)
    assert run(["task", "ls", "--url", url]) == UNAVAILABLE
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: {url} does not speak TLS; ")
    assert last == f"try: {line}"
    assert len(api.sent) == 1


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("http://127.0.0.1:8420", "https://127.0.0.1:8420"),
        ("http://rota.example:8421", "https://rota.example:8421"),
        ("https://rota.example:8421", "https://rota.example:8420"),
    ],
)
def test_a_server_that_hangs_up_at_once_perhaps_speaks_otherwise(
    api: FakeApi, capsys: pytest.CaptureFixture[str], url: str, meant: str
) -> None:
    def hang_up(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")

    api.on("GET /tasks", hang_up)
    api.on("GET /events", hang_up)
    for words in ("task ls", "events"):
        assert run([*words.split(), "--url", url]) == UNAVAILABLE
        first, last = capsys.readouterr().err.splitlines()
        assert first.startswith(f"error: {url} closes connections without an answer; perhaps ")
        assert last == f"try: rota {words} --url {meant}"
    assert len(api.sent) == 2, "nothing was tried again"


def test_a_certificate_that_is_not_trusted_is_told_as_such(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    def show_another(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate")

    api.on("GET /tasks", show_another)
    assert run(["task", "ls", "--url", "https://127.0.0.1:8420"]) == UNAVAILABLE
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith(
        "error: the certificate of https://127.0.0.1:8420 is not trusted here; SSL_CERT_FILE names "
    )
    assert last == "try: export SSL_CERT_FILE=…"
    assert len(api.sent) == 1


def test_certificates_that_are_not_there_are_told_as_such(
    api: FakeApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "absent.pem")
    assert run(["task", "ls", "--url", "https://127.0.0.1:8420"]) == USAGE
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("error: what SSL_CERT_FILE or SSL_CERT_DIR names cannot be used: ")
    assert last == "try: unset SSL_CERT_FILE SSL_CERT_DIR"


def test_the_place_of_no_event_is_refused_before_anybody_is_asked(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["events", "--after", "zzz", "--kind", "task.failed"]) == USAGE
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("error: --after: 'zzz' is not the id of an event, such as m17 or r17-1767268800250000; ")
    assert last == "try: rota events --kind task.failed"
    assert not api.sent


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
