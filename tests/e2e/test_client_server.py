"""The clients and the commands against a real `rota server`: one process, started once for all of these."""

import asyncio
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import rota
from examples import over_http
from rota.domain.errors import ConflictError, InvalidError, NotFoundError
from rota.interfaces.cli.main import run
from tests.e2e.test_cli_settings import rota as rota_command
from tests.support.cluster import a_cluster

TASKS = Path(over_http.__file__).with_name("tasks.py")
pytestmark = pytest.mark.timeout(180)
Rota = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True, slots=True)
class Server:
    folder: Path
    url: str
    token: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(TASKS, folder)
    settings = {"store": {"url": f"sqlite:///{folder}/rota.db"}}
    with a_cluster(folder, settings, app=folder / "tasks.py") as cluster:
        process = cluster.start("server", "pod")
        url = process.wait_for("api.listening")["address"]
        process.wait_for("worker.online")
        made = rota_command(folder, "token", "create", "tests", "--role", "admin", "--config", "rota.yaml")
        assert made.returncode == 0, made.stderr
        yield Server(folder, url, made.stdout.strip())


@pytest.fixture
def typed(server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    """Type a command; its exit code and what it printed."""
    monkeypatch.setenv("ROTA_URL", server.url)
    monkeypatch.setenv("ROTA_TOKEN", server.token)
    monkeypatch.chdir(server.folder)

    def type_it(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        return code, *capsys.readouterr()

    return type_it


def type_lines(server: Server, *lines: str) -> int:
    """Type lines into a shell of the server's folder; the exit code of the last."""
    bin_folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "ROTA_URL": server.url}
    shell = subprocess.run(["bash", "-c", "\n".join(lines)], env=environment, cwd=server.folder)  # noqa: S603, S607 ours
    return shell.returncode


def test_a_task_is_submitted_and_waited_for(typed: Rota) -> None:
    code, printed, _ = typed("task", "submit", "greet", "--payload", '{"name": "Ada"}', "--wait", "-o", "json")
    done = json.loads(printed)
    assert (code, done["status"], done["result"]["data"]) == (0, "SUCCESS", "Hello, Ada!")
    code, printed, _ = typed("task", "submit", "greet", "-p", '{"nobody": 1}', "--wait", "-o", "json")
    assert (code, json.loads(printed)["error"]["code"]) == (1, "bad_payload")


def test_a_record_is_followed_to_the_end(typed: Rota) -> None:
    _, task_id, _ = typed("task", "submit", "call_shop", "-p", '{"order": 7}')
    code, printed, _ = typed("task", "logs", "-f", task_id.strip())
    changes = [line.split("  ")[2] for line in printed.splitlines() if " → " in line]
    assert code == 0
    assert (changes[0], changes[-1]) == ("- → PENDING", "PROCESSING → SUCCESS")
    assert sum("the shop is closed" in line for line in printed.splitlines() if "RETRY" in line) == 2
    assert typed("task", "watch", task_id.strip())[0] == 0
    assert typed("task", "logs", task_id.strip())[1] == printed


def test_tasks_are_cancelled_and_done_again_by_filter(typed: Rota) -> None:
    for _ in range(3):
        typed("task", "submit", "greet", "-p", '{"name": "Ada"}', "--delay", "1h", "--metadata", "kind=late")
    chosen = ("--metadata", "kind=late")
    assert typed("task", "ls", *chosen, "-o", "name")[1].count("\n") == 3
    _, waiting, _ = typed("task", "explain", typed("task", "ls", *chosen, "-o", "name")[1].split()[0])
    assert waiting.startswith("PENDING: ")
    assert typed("task", "cancel", *chosen, "--yes")[:2] == (0, "3 of 3 tasks: cancel done, 0 skipped\n")
    assert typed("task", "ls", *chosen, "--status", "CANCELLED", "-o", "name")[1].count("\n") == 3
    assert typed("task", "retry", *chosen, "--status", "CANCELLED", "--yes")[:2] == (
        0,
        "3 of 3 tasks: retry done, 0 skipped\n",
    )


def test_a_waiting_task_is_changed_and_one_that_ended_is_a_conflict(typed: Rota) -> None:
    task_id = typed("task", "submit", "greet", "-p", '{"name": "Ada"}', "--delay", "1h")[1].strip()
    code, printed, _ = typed("task", "amend", task_id, "--priority", "urgent", "-o", "json")
    assert (code, json.loads(printed)["priority"]) == (0, 9)
    assert typed("task", "cancel", task_id)[1] == f"{task_id} CANCELLED\n"
    code, _, said = typed("task", "amend", task_id, "--priority", "0")
    assert (code, said.splitlines()[-1]) == (4, f"try: rota task get {task_id}")


def test_a_token_is_made_used_and_revoked(typed: Rota, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    code, printed, _ = typed("token", "create", "reader", "--expires-in", "1h", "-o", "json")
    made = json.loads(printed)
    monkeypatch.setenv("ROTA_TOKEN", made["secret"])
    assert typed("task", "ls")[0] == 0
    code, _, said = typed("task", "submit", "greet")
    assert (code, "operator" in said) == (6, True)
    assert typed("task", "get", "1")[0] == 3
    monkeypatch.setenv("ROTA_TOKEN", server.token)
    assert made["token"]["id"] in typed("token", "ls", "-o", "name")[1]
    assert typed("token", "revoke", made["token"]["id"])[0] == 0
    assert "token.revoke" in typed("audit", "ls")[1]
    monkeypatch.setenv("ROTA_TOKEN", made["secret"])
    code, _, said = typed("task", "ls")
    assert code == 6
    line = said.splitlines()[-1].removeprefix("try: ")
    assert type_lines(server, line, "rota task ls --limit 1") == 0, line


def test_types_are_defined_paused_and_deleted(typed: Rota, server: Server) -> None:
    (server.folder / "types.yaml").write_text("type: report\ntimeout_seconds: 60\nmax_concurrent: 2\n", "utf-8")
    assert typed("config-type", "apply", "-f", "types.yaml")[:2] == (
        0,
        "+ report\nreport is at revision 1\ndone: 1 is new\n",
    )
    (server.folder / "again.yaml").write_text(typed("config-type", "get", "report", "-o", "yaml")[1], "utf-8")
    assert typed("config-type", "apply", "-f", "again.yaml")[0] == 0
    assert typed("config-type", "pause", "report")[0] == 0
    code, _, said = typed("task", "submit", "report")
    assert (code, "disabled" in said) == (2, True)
    assert typed("config-type", "resume", "report")[0] == 0
    assert typed("config-type", "trigger", "report")[0] == 0
    assert typed("config-type", "rm", "report", "--yes")[0] == 0
    assert typed("config-type", "get", "report")[0] == 3


REFUSED = [
    '{cron: "0 0 * * *", overlap: queue_one}',
    '{cron: "0 0 * * *", only: [cn]}',
    '{cron: "0 0 * * *", payload: [1]}',
]


@pytest.mark.parametrize("schedule", REFUSED)
def test_a_plan_refuses_what_apply_refuses_and_apply_then_changes_nothing(
    typed: Rota, server: Server, schedule: str
) -> None:
    text = f'type: aa1\nschedule: {{cron: "0 0 * * *"}}\n---\ntype: bb1\nschedule: {schedule}\n'
    (server.folder / "refused.yaml").write_text(text, "utf-8")
    planned = typed("config-type", "apply", "-f", "refused.yaml", "--plan")
    assert (planned[0], "error: refused.yaml:5: bb1: schedule." in planned[2]) == (2, True), planned
    assert typed("config-type", "apply", "-f", "refused.yaml")[0] == 2
    assert typed("config-type", "get", "aa1")[0] == 3


def test_all_that_the_server_refuses_of_a_definition_is_told_at_once(typed: Rota, server: Server) -> None:
    text = 'type: aa1\nexecutor: {type: http}\npayload: [1]\nschedule: {cron: "0 0 * * *", only: [cn]}\nname: 7\n'
    (server.folder / "wrong.yaml").write_text(text, "utf-8")
    code, _, said = typed("config-type", "apply", "-f", "wrong.yaml")
    told = [line.rsplit(": ", 1)[0] for line in said.splitlines()[:-1]]
    named = [(5, "name"), (2, "executor.url"), (4, "schedule.only")]
    assert (code, told) == (2, [f"error: wrong.yaml:{line}: aa1: {field}" for line, field in named])
    assert typed("config-type", "get", "aa1")[0] == 3


def test_a_worker_is_drained_resumed_and_resized(typed: Rota) -> None:
    worker_id = typed("worker", "ls", "-o", "name")[1].strip()
    assert typed("worker", "drain", worker_id)[0] == 0
    assert typed("worker", "resume", worker_id)[0] == 0
    assert typed("worker", "capacity", worker_id, "12")[0] == 0
    assert json.loads(typed("worker", "get", worker_id, "-o", "json")[1])["name"] == "pod"


def test_figures_and_the_doctor(typed: Rota, server: Server) -> None:
    for command in (("stats",), ("cluster",), ("queue", "ls"), ("top",)):
        assert typed(*command)[0] == 0
    code, printed, _ = typed("doctor", "--config", "rota.yaml")
    assert code == 0, printed
    assert f"ok    server: {server.url} (ROTA_URL) answers, of this installation, nodes 1" in printed


def test_the_doctor_of_another_folder_says_that_the_server_is_not_of_it(
    typed: Rota, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert typed("db", "upgrade")[0] == 0
    code, printed, _ = typed("doctor")
    assert code == 1
    assert f"FAIL  server: {server.url} (ROTA_URL) is of another installation, on sqlite and memory" in printed


def test_the_live_view_is_drawn_on_a_terminal_and_q_ends_it(server: Server) -> None:
    screen, terminal = pty.openpty()
    environment = {**os.environ, "ROTA_URL": server.url, "ROTA_TOKEN": server.token, "TERM": "xterm"}
    environment |= {"COLUMNS": "160", "LINES": "50"}
    with subprocess.Popen(
        [sys.executable, "-m", "rota.interfaces.cli.main", "top"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        cwd=server.folder,
    ) as process:
        os.close(terminal)
        shown = b""
        while b"q ends" not in shown:
            shown += os.read(screen, 65536)
        os.write(screen, b"q")
        while _read_more(screen):
            pass
        assert process.wait(60) == 0
    os.close(screen)
    assert b"leader" in shown
    assert b"pod" in shown


def _read_more(screen: int) -> bytes:
    try:
        return os.read(screen, 65536)
    except OSError:  # nobody holds the other end any more
        return b""


def test_the_example_does_what_the_reference_shows(typed: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    task = over_http.greet()
    assert (task.status, task.priority, task.metadata) == ("SUCCESS", 5, {"order": "7"})
    assert asyncio.run(over_http.greet_all(["Bob", "Cleo"])) == ["Hello, Bob!", "Hello, Cleo!"]
    over_http.look_around()
    assert "STATE_CHANGE" in capsys.readouterr().out
    assert over_http.clean_up() >= 0
    assert over_http.find_status(task.id) == "SUCCESS"
    assert over_http.find_status("1") == "gone"


def test_the_example_of_the_events_goes_on_where_it_was(typed: Rota) -> None:
    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(over_http.watch_ends, 1)
        while not watching.done():
            over_http.greet()
    seen = watching.result()
    assert seen
    over_http.greet()
    following = over_http.watch_ends(1, seen)
    assert following not in (None, seen)


def test_events_come_while_things_happen_and_go_on_where_they_were(typed: Rota) -> None:
    async def scenario() -> None:
        async with rota.AsyncClient() as client:
            stream = client.events(types=["greet"])
            first = asyncio.ensure_future(anext(aiter(stream)))
            while not first.done():  # until the stream is open, what happens is not in it
                await (await client.submit("greet", {"name": "Ada"})).wait("30s")
            seen = await first
            assert seen.task_type == "greet"
            wanted = (
                await client.submit("greet", {"name": "Ada"})
            ).id  # the last one may have ended with what was seen
            async for event in client.events(after=seen.id, kinds=["task.completed"]):
                if event.task_id == wanted:
                    break

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_many_are_submitted_once_and_errors_are_those_of_the_domain(typed: Rota) -> None:
    with rota.Client() as client:
        payloads = [{"name": str(number)} for number in range(1200)]
        options = {"idempotency_key": "once", "delay": "1h", "metadata": {"batch": "many"}}
        first = client.submit_many("greet", payloads, **options)  # type: ignore[arg-type]
        again = client.submit_many("greet", payloads, **options)  # type: ignore[arg-type]
        assert [handle.id for handle in first] == [handle.id for handle in again]
        assert len({handle.id for handle in first}) == 1200
        assert client.tasks.cancel_all(metadata={"batch": "many"}).changed == 1200
        with pytest.raises(NotFoundError):
            client.tasks.get("1")
        with pytest.raises(InvalidError) as raised:
            client.submit("no_such_type", priority=99)
        assert raised.value.field
        with pytest.raises(ConflictError):
            client.tasks.patch(first[0].id, priority=1)
        with pytest.raises(TimeoutError):
            client.submit("greet", {"name": "Ada"}, delay="1h").wait("50ms")
