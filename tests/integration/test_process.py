"""One process from its command line to its end, here and now: signals, live settings, and groups of workers."""

import io
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from rota.application.ports.system import Clock
from rota.config import process
from rota.interfaces.cli.main import run
from tests.support.cluster import wait_until
from tests.support.servers.redis import RedisServer

BY_STORE = ("--set", "store.url=sqlite:///.rota/rota.db", "--set", "coordinator.url=sql://")
IN_MEMORY = (
    "--set",
    "store.url=memory://",
    "--set",
    "metrics.collector=none",
    "--set",
    "api.port=0",
    "--set",
    "api.grpc_port=0",
)


class Journal(io.StringIO):
    """Standard error, which another thread reads."""

    def lines(self, event: str) -> list[dict[str, Any]]:
        told = [json.loads(line) for line in self.getvalue().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in told if line["event"] == event]

    def wait_for(self, event: str) -> dict[str, Any]:
        found: dict[str, Any] = wait_until(lambda: self.lines(event), f"{event} in the log")[0]
        return found


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Journal]:
    """The log of this process, which is left as it was."""
    root, made = logging.getLogger(), Journal()
    handlers, level = root.handlers[:], root.level
    monkeypatch.chdir(tmp_path)
    yield made
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


@contextmanager
def meanwhile(journal: Journal, act: Callable[[], None]) -> Iterator[None]:
    """Once the process is ready, and so has its handlers in place, this happens; then it is told to end."""

    def wait_and_act() -> None:
        journal.wait_for("node.ready")
        try:
            act()
        finally:
            send(signal.SIGTERM)

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    with redirect_stderr(journal):
        yield
    thread.join(20)


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("role", "lines"),
    [
        ("server", {"leader.won", "worker.online", "api.listening"}),
        ("api", {"api.listening"}),
        ("scheduler", {"leader.won"}),
        ("worker", {"worker.online"}),
    ],
)
def test_a_process_plays_its_role_until_it_is_told_to_end(journal: Journal, role: str, lines: set[str]) -> None:
    def wait_for_all() -> None:
        for line in lines:
            journal.wait_for(line)

    shared = () if role == "server" else BY_STORE
    with meanwhile(journal, wait_for_all):
        assert run([role, *IN_MEMORY, *shared]) == 0
    others = {"leader.won", "worker.online", "api.listening"} - lines
    assert not any(journal.lines(other) for other in others)
    assert journal.lines("node.stopped")


def test_it_says_which_store_and_coordinator_it_has_with_secrets_covered(
    journal: Journal, redis_server: RedisServer
) -> None:
    secret = redis_server.url().replace("redis://", "redis://default:hush@")
    with meanwhile(journal, lambda: None):
        assert run(["server", *IN_MEMORY, "--set", f"coordinator.url={secret}"]) == 0
    (ready,) = journal.lines("node.ready")
    assert ready["store"] == "memory://"
    assert ready["coordinator"] == secret.replace("hush", "***")


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("role", "lack"),
    [
        ("api", "an API alone takes tasks that nobody runs"),
        ("scheduler", "a scheduler alone has nothing to do"),
        ("worker", "a worker alone has nothing to do"),
    ],
)
@pytest.mark.parametrize(
    ("store", "keys"), [("sqlite:///.rota/rota.db", "coordinator.url"), ("memory://", "store.url and coordinator.url")]
)
def test_a_part_of_a_cluster_is_refused_where_no_other_process_can_join_it(
    role: str, lack: str, *, store: str, keys: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([role, "--set", f"store.url={store}"]) == 2
    told = capsys.readouterr().err
    assert f"{keys}: memory:// is for one process, in which {lack}; " in told
    assert ("several on one machine need --set coordinator.url=sql:// each" in told) == store.startswith("sqlite")
    assert told.endswith(f"\ntry: rota server --set store.url={store}\n")
    assert not Path(".rota").exists()


def test_the_settings_are_read_anew_when_asked(journal: Journal, tmp_path: Path) -> None:
    file = tmp_path / "rota.yaml"
    file.write_text("worker: {capacity: 1}\n", "utf-8")

    def change() -> None:
        file.write_text("worker: {capacity: 7}\nlog: {level: debug}\n", "utf-8")
        send(signal.SIGHUP)
        assert set(journal.wait_for("settings.changed")["settings"]) == {"worker.capacity", "log.level"}

    with meanwhile(journal, change):
        assert run(["server", *IN_MEMORY]) == 0
    assert journal.lines("settings.changed")
    assert logging.getLogger().level == logging.DEBUG


def test_a_balancer_that_nobody_knows_is_rejected_while_it_runs(journal: Journal, tmp_path: Path) -> None:
    def change() -> None:
        (tmp_path / "rota.yaml").write_text("scheduler: {balancer: best}\n", "utf-8")
        journal.wait_for("settings.rejected")

    with meanwhile(journal, change):
        assert run(["server", *IN_MEMORY]) == 0
    assert "unknown balancer 'best'" in journal.lines("settings.rejected")[0]["error"]


class RecordedGroup:
    """In place of the group: notes which processes it would have run."""

    commands: Sequence[Sequence[str]] = ()

    def __init__(self, commands: Sequence[Sequence[str]], clock: Clock, *, end_within: timedelta) -> None:
        type(self).commands = commands

    async def run(self) -> None:
        """All of them have ended."""


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> type[RecordedGroup]:
    monkeypatch.setattr(process, "ProcessGroup", RecordedGroup)
    return RecordedGroup


def test_each_process_of_a_group_is_one_worker_with_a_name_of_its_own(
    journal: Journal, group: type[RecordedGroup], tmp_path: Path
) -> None:
    (tmp_path / "my.yaml").write_text("worker: {capacity: 5, processes: 7}\ncoordinator: {url: 'sql://'}\n", "utf-8")
    arguments = ["--config", "my.yaml", "--app", "tasks.py", "--set", "worker.name=pod", "--set", "log.level=error"]
    assert run(["worker", *arguments, "--processes", "2"]) == 0
    for place, command in enumerate(group.commands, start=1):
        assert list(command[:4]) == [sys.executable, "-m", "rota.interfaces.cli.main", "worker"]
        assert command[4:8] == ["--config", "my.yaml", "--app", "tasks.py"]
        assert set(command[9::2]) == {"log.level=error", "worker.processes=1", f"worker.name=pod-{place}"}
    assert len(group.commands) == 2


def test_each_process_of_a_group_has_a_port_of_its_own_for_health_and_figures(
    journal: Journal, group: type[RecordedGroup]
) -> None:
    for port, expected in (("8430", ["8430", "8431", "8432"]), ("0", ["0"] * 3)):
        assert run(["worker", "--processes", "3", "--set", f"monitor.port={port}", *BY_STORE]) == 0
        ports = [part for command in group.commands for part in command if part.startswith("monitor.port=")]
        assert ports == [f"monitor.port={one}" for one in expected]


def test_processes_without_a_name_are_told_apart_as_well(journal: Journal, group: type[RecordedGroup]) -> None:
    assert run(["worker", "--set", "worker.processes=3", *BY_STORE]) == 0
    names = {part for command in group.commands for part in command if part.startswith("worker.name=")}
    assert len(names) == 3
    assert all(str(os.getpid()) in name for name in names)
