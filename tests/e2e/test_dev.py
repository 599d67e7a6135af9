"""`rota dev` as a newcomer meets it."""

import json
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx2
import pytest

import rota
from rota.domain.errors import UnauthenticatedError
from rota.domain.task import CANCELLED, FAILED, SUCCESS
from rota.interfaces.cli.main import run
from tests.support.cluster import bare_environment, wait_until
from tests.support.servers.process import free_port

pytestmark = pytest.mark.timeout(180)
TASKS = """\
import rota


@rota.task("{type}")
async def run({arguments}) -> None:
    pass
"""
TICK = "sample_tick"
SAMPLES = {"sample_hello", "sample_flaky", "sample_slow", "sample_primes", "sample_http"}
PROGRAM = ["-m", "rota.interfaces.cli.main"]
WITHOUT_HTTP = ["-c", "import sys; sys.modules['aiohttp'] = None; from rota.interfaces.cli.main import main; main()"]


@dataclass(frozen=True, slots=True)
class Running:
    """A `rota dev` that has said where it is."""

    popen: subprocess.Popen[bytes]
    said: str

    @property
    def url(self) -> str:
        return str(re.findall(r"http://127\.0\.0\.1:\d+", self.said)[0])

    @property
    def token(self) -> str:
        """It has a line of its own."""
        (token,) = re.findall(r"^rota_\S+$", self.said, re.MULTILINE)
        return str(token)

    def interrupt(self) -> int:
        self.popen.send_signal(signal.SIGINT)
        return self.popen.wait(60)


@contextmanager
def dev(folder: Path, *flags: str, program: Sequence[str] = PROGRAM) -> Iterator[Running]:
    log = folder / "dev.log"
    with log.open("wb") as output:
        popen = subprocess.Popen(  # noqa: S603 our own program
            [sys.executable, *program, "dev", *flags],
            stdout=output,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=bare_environment(),
        )
    try:
        wait_until(lambda: "rota top" in log.read_text("utf-8"), "rota dev to say what to type")
        yield Running(popen, log.read_text("utf-8"))
    finally:
        popen.kill()
        popen.wait(60)


def test_the_samples_run_and_ctrl_c_ends_it_in_good_order(tmp_path: Path) -> None:
    with dev(tmp_path, "--port", str(free_port())) as running, rota.Client(running.url, running.token) as client:
        tasks = {task.type: task.id for task in client.tasks.list() if not task.name and task.type != TICK}
        assert tasks.keys() == SAMPLES
        (types,) = re.findall(r"^  Types   (.*)$", running.said, re.MULTILINE)
        assert set(types.split(", ")) == {config.type for config in client.configs.list()}
        client.tasks.cancel(tasks["sample_slow"])
        ends = {name: client.tasks.wait(task_id, "60s") for name, task_id in tasks.items()}
        assert {name: task.status for name, task in ends.items()} == dict.fromkeys(SAMPLES, SUCCESS) | {
            "sample_slow": CANCELLED
        }
        assert ends["sample_flaky"].attempt == 3
        assert running.interrupt() == 0


def test_a_sample_fires_by_itself_and_one_fails_for_good(tmp_path: Path) -> None:
    with (
        dev(tmp_path, "--port", str(free_port()), "--ephemeral") as running,
        rota.Client(running.url, running.token) as client,
    ):
        wait_until(lambda: list(client.tasks.list(type=TICK, status=SUCCESS)), "the schedule to fire")
        wait_until(lambda: list(client.tasks.list(type="sample_flaky", status=FAILED)), "one to fail for good")


def test_a_schedule_of_the_samples_that_was_paused_stays_so(tmp_path: Path) -> None:
    for is_paused in (False, True):
        with dev(tmp_path, "--port", str(free_port())) as running:
            with rota.Client(running.url, running.token) as client:
                assert client.schedules.get(TICK).state == ("paused" if is_paused else "active")
                client.schedules.pause(TICK)
            assert running.interrupt() == 0


def test_the_sample_service_greets_whoever_has_its_secret(tmp_path: Path) -> None:
    with dev(tmp_path, "--port", str(free_port()), "--ephemeral") as running:
        (service,) = re.findall(r"^  Service (http://127\.0\.0\.1:\d+), which sample_http calls$", running.said, re.M)
        with rota.Client(running.url, running.token) as client:
            task = client.submit("sample_http", {"name": "Ada"}).wait("30s")
            assert task.result is not None
            assert task.result.data == {"greeting": "Hello, Ada!", "task_id": task.id, "attempt": 1}
            refused = client.submit("sample_http", ["Ada"]).wait("30s")
            assert (refused.status, refused.error and refused.error.code) == ("FAILED", "http_422")
            client.configs.put("elsewhere", {"executor": {"type": "http", "url": running.url}})
            elsewhere = client.submit("elsewhere").wait("30s")  # only that port is allowed
            assert elsewhere.error is not None
            assert elsewhere.error.code == "target_refused"
        assert httpx2.post(f"{service}/greet", json={"task_id": "1"}).status_code == 401
        assert running.interrupt() == 0


def test_it_can_be_measured_out_of_the_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with dev(tmp_path, "--port", str(free_port()), "--ephemeral") as running:
        monkeypatch.setenv("ROTA_TOKEN", running.token)
        assert run(["bench", "-n", "200", "--batch", "100", "-o", "json", "--url", running.url]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["tasks"], found["succeeded"]) == (200, 200)
        assert found["completed_per_second"] > 1
        assert 0 < found["start"]["p50_seconds"] <= found["start"]["p99_seconds"] < 60
        assert running.interrupt() == 0


class Neighbour(BaseHTTPRequestHandler):
    """A service on this machine that has nothing to do with Rota."""

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()


@contextmanager
def a_neighbour() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Neighbour) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_what_the_settings_allow_stays_and_an_operator_s_change_of_the_sample_too(tmp_path: Path) -> None:
    port = str(free_port())
    with dev(tmp_path, "--port", port) as running, rota.Client(running.url, running.token) as client:
        sample = client.configs.get("sample_http")
        client.configs.put("sample_http", {"executor": sample.executor, "timeout_seconds": 7})
        assert running.interrupt() == 0
    with (
        a_neighbour() as place,
        dev(tmp_path, "--port", port, "--set", f"http.allow={place}") as running,
        rota.Client(running.url, running.token) as client,
    ):
        assert client.configs.get("sample_http").timeout_seconds == 7
        client.configs.put("own", {"executor": {"type": "http", "method": "GET", "url": f"http://{place}/"}})
        assert client.submit("own").wait("30s").status == SUCCESS


def test_without_the_extra_one_line_says_how_to_get_the_sample(tmp_path: Path) -> None:
    port = str(free_port())
    with (
        dev(tmp_path, "--port", port, "--ephemeral", program=WITHOUT_HTTP) as running,
        rota.Client(running.url, running.token) as client,
    ):
        assert "  Service none; to see a task over HTTP: pip install 'rota[http]'\n" in running.said
        assert {task.type for task in client.tasks.list()} == SAMPLES - {"sample_http"}
        assert running.interrupt() == 0


def test_a_port_that_is_taken_moves_on(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        with dev(tmp_path, "--port", str(port), "--ephemeral") as running:
            assert int(running.url.rpartition(":")[2]) > port
            assert f"export ROTA_URL={running.url}" in running.said
            assert f"(port {port} is taken, so it is " in running.said


def test_the_token_is_for_this_user_alone_and_is_used_again(tmp_path: Path) -> None:
    with dev(tmp_path, "--port", str(free_port())) as running:
        first = running.token
        assert running.interrupt() == 0
    kept = tmp_path / ".rota" / "token"
    assert (kept.read_text("utf-8").strip(), stat.S_IMODE(kept.stat().st_mode)) == (first, 0o600)
    with dev(tmp_path, "--port", str(free_port())) as running:
        assert running.token == first


def test_a_token_of_another_store_is_replaced_and_earlier_ones_end(tmp_path: Path) -> None:
    with dev(tmp_path, "--port", str(free_port())) as running:
        lost = running.token
        assert running.interrupt() == 0
    (tmp_path / ".rota" / "token").write_text("rota_1_" + "x" * 43, "utf-8")
    with dev(tmp_path, "--port", str(free_port())) as running:
        assert (tmp_path / ".rota" / "token").read_text("utf-8").strip() == running.token
        with rota.Client(running.url, running.token) as client:
            assert client.cluster().leader
        with rota.Client(running.url, lost) as client, pytest.raises(UnauthenticatedError):
            client.cluster()


def test_what_keeps_nothing_leaves_a_kept_token_alone(tmp_path: Path) -> None:
    (tmp_path / ".rota").mkdir()
    (tmp_path / ".rota" / "token").write_text("kept", "utf-8")
    with dev(tmp_path, "--port", str(free_port()), "--ephemeral") as running:
        assert (tmp_path / ".rota" / "token").read_text("utf-8") == "kept"
        assert f"  export ROTA_TOKEN={running.token}\n" in running.said


def test_only_the_types_of_this_app_are_named(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(TASKS.format(type="aaa", arguments=""), "utf-8")
    (tmp_path / "second.py").write_text(
        TASKS.format(type="zzz", arguments="to: str, again: int, late: int = 0"), "utf-8"
    )
    with dev(tmp_path, "first.py", "--port", str(free_port())) as running:
        assert "  rota task submit aaa --wait\n" in running.said
        assert running.interrupt() == 0
    with dev(tmp_path, "second.py", "--port", str(free_port())) as running:
        assert "Service" not in running.said
        assert "  Types   zzz\n" in running.said
        assert """  rota task submit zzz --payload '{"to": "…", "again": …}' --wait\n""" in running.said


def test_a_second_one_in_the_folder_is_told_of_the_first(tmp_path: Path) -> None:
    with dev(tmp_path, "--port", str(free_port())) as running:
        ended = end_of_dev(tmp_path)
    assert ended.returncode == 2
    said = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    place = f"as process {running.popen.pid} at {running.url};"
    assert said[0].startswith(f"error: Rota runs in this folder already, {place}")
    assert said[1:] == [f"try: rota task ls --url {running.url}"]


def test_tokens_of_others_in_a_store_that_is_not_of_this_folder_are_left_alone(tmp_path: Path) -> None:
    shared = f"store.url=sqlite:///{tmp_path}/shared.db"
    folders = [tmp_path / "one", tmp_path / "two"]
    tokens = []
    for folder in folders:
        folder.mkdir()
        with dev(folder, "--port", str(free_port()), "--set", shared) as running:
            tokens.append(running.token)
            assert "Service" not in running.said  # the other one's worker could not call it
            with rota.Client(running.url, tokens[0]) as client:
                assert client.cluster().leader
            assert running.interrupt() == 0
    assert len(set(tokens)) == 2


def end_of_dev(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """One that ends by itself."""
    return subprocess.run(  # noqa: S603 our own program
        [sys.executable, "-m", "rota.interfaces.cli.main", "dev", *flags],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_file_without_a_task_ends_it(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("import rota\n", "utf-8")
    ended = end_of_dev(tmp_path, "empty.py")
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: empty.py has no task; write one in it")
    assert ended.stderr.endswith("try: rota dev empty.py\n")
    assert not (tmp_path / ".rota").exists()


def test_a_type_from_a_file_runs_where_its_config_names_a_function_of_the_app(tmp_path: Path) -> None:
    app = TASKS.format(type="greet", arguments="") + "\n\ndef shout(text: str) -> str:\n    return text.upper()\n"
    (tmp_path / "jobs.py").write_text(app, "utf-8")
    with dev(tmp_path, "jobs.py", "--port", str(free_port())) as running:
        with rota.Client(running.url, running.token) as client:
            client.configs.put("shouted", {"executor": {"type": "local", "function": "jobs:shout"}})
            task = client.submit("shouted", {"text": "hello"}).wait("60s")
            assert task.result is not None
            assert task.result.data == "HELLO"
            client.configs.put("elsewhere", {"executor": {"type": "local", "function": "other:shout"}})
            waiting = client.tasks.explain(client.submit("elsewhere").id)
            assert "whose function is in the module other: all of Rota is one process here" in waiting.sentence
        assert running.interrupt() == 0


def test_what_is_left_of_the_samples_is_told_with_what_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with dev(tmp_path, "--port", str(free_port())) as running:
        with rota.Client(running.url, running.token) as client:
            wait_until(lambda: any(config.type == TICK for config in client.configs.list()), "the samples")
        assert running.interrupt() == 0
    (tmp_path / "jobs.py").write_text(TASKS.format(type="greet", arguments=""), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROTA_URL", raising=False)
    monkeypatch.delenv("ROTA_TOKEN", raising=False)
    with dev(tmp_path, "jobs.py", "--port", str(free_port())):
        assert run(["doctor"]) == 1
        fix = f"rota schedule pause {TICK}"
        assert f"      try: {fix}\n" in capsys.readouterr().out
        assert run(fix.split()[1:]) == 0
        run(["doctor"])
        assert "scheduled types" not in capsys.readouterr().out
