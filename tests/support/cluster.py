"""A cluster of real processes: started with the `rota` command, watched through their logs, killed at will."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import yaml

from rota.domain.errors import UnavailableError
from tests.support.patience import PATIENCE_S

T = TypeVar("T")

REPOSITORY = Path(__file__).parents[2]
SHARED = 3 if "PYTEST_XDIST_WORKER" in os.environ else 1  # a bar is for a machine of its own: others get the CPU too


@dataclass(slots=True)
class Process:
    """One `rota` process and its log."""

    name: str
    log: Path
    popen: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.popen.pid

    def events(self) -> list[dict[str, Any]]:
        """What it logged so far, as JSON; a line that is none (a traceback of the interpreter) is shown as text."""
        lines = self.log.read_text("utf-8", errors="replace").splitlines()
        return [_parse(line) for line in lines]

    def wait_for(self, event: str, *, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """Wait until it logs this event."""

        def look() -> dict[str, Any] | None:
            if self.popen.poll() is not None and not self.said(event):
                raise AssertionError(f"{self.name} ended with {self.popen.returncode}:\n{self.log.read_text()[-4000:]}")
            return self.said(event)

        seen: dict[str, Any] = wait_until(look, f"{self.name} to log {event}", patience_s=patience_s)
        return seen

    def send(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """As the out-of-memory killer does it: without warning."""
        self.popen.kill()
        self.popen.wait(PATIENCE_S)

    def stop(self) -> int:
        """Ask it to end and wait for it."""
        if self.popen.poll() is None:
            self.popen.terminate()
        return self.popen.wait(60)

    def said(self, event: str) -> dict[str, Any] | None:
        return next((line for line in self.events() if line.get("event") == event), None)


@dataclass(slots=True)
class Cluster:
    """Processes that share a store, a coordinator and an app."""

    folder: Path
    settings: Mapping[str, Any]
    app: Path
    processes: list[Process] = field(default_factory=list)
    keeps_history: bool = False

    @property
    def histories(self) -> Path:
        """The folder with a `*.jsonl` of each process, where histories are kept."""
        return self.folder / "history"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    def write_settings(self, **changes: Any) -> Path:
        """The settings file that all processes read."""
        path = self.folder / "rota.yaml"
        path.write_text(yaml.safe_dump({**self.settings, **changes}), "utf-8")
        return path

    def start(self, role: str, name: str, *flags: str, program: Path | None = None) -> Process:
        """Start `rota ROLE` and wait until it is ready."""
        process = self.launch(role, name, *flags, program=program)
        process.wait_for("node.ready")
        return process

    def start_all(self, role: str, *names: str) -> list[Process]:
        """Start several at once, and wait for all of them."""
        processes = [self.launch(role, name) for name in names]
        for process in processes:
            process.wait_for("node.ready")
        return processes

    def launch(self, role: str, name: str, *flags: str, program: Path | None = None) -> Process:
        """Start `rota ROLE`, or a program of the tests that stands in for `rota`."""
        config = self.folder / "rota.yaml"
        if not config.exists():
            self.write_settings()
        log = self.folder / f"{name}.log"
        run = ["-m", "rota.interfaces.cli.main"] if program is None else ["-P", str(program)]
        command = [
            sys.executable,
            *run,
            role,
            "--config",
            str(config),
            "--app",
            str(self.app),
            "--set",
            f"worker.name={name}",
            *flags,
        ]
        environment = {**os.environ, "ROTA_TEST_LEDGER": str(self.ledger), "ROTA_LOG__FORMAT": "json"}
        environment |= {
            "ROTA_API__PORT": "0",
            "ROTA_API__GRPC_PORT": "0",
        }  # any: other tests run beside this one
        environment["PYTHONPATH"] = str(REPOSITORY)  # an app of the tests may use what others of them have
        if self.keeps_history:
            self.histories.mkdir(exist_ok=True)
            environment["ROTA_HISTORY"] = str(self.histories / f"{name}.jsonl")
        with log.open("ab") as output:
            popen = subprocess.Popen(  # noqa: S603 our own program
                command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=self.folder
            )
        process = Process(name, log, popen)
        self.processes.append(process)
        return process

    def leader(self) -> Process:
        """The live process that won the last election; before the first one, wait for it."""
        found: Process = wait_until(self.find_leader, "a leader")
        return found

    def find_leader(self) -> Process | None:
        """The same, if there was one."""
        reigns = [
            (line["term"], process)
            for process in self.processes
            if process.popen.poll() is None
            for line in process.events()
            if line.get("event") == "leader.won"
        ]
        return max(reigns, key=lambda reign: reign[0])[1] if reigns else None

    def runs(self, what: str = "ran") -> Counter[str]:
        """How often each task did this, by the ledger that the tasks keep themselves."""
        if not self.ledger.exists():
            return Counter()
        notes = map(json.loads, self.ledger.read_text("utf-8").splitlines())
        return Counter(note["task"] for note in notes if note["what"] == what)

    def stop(self) -> None:
        for process in self.processes:
            if process.popen.poll() is None:
                process.popen.terminate()
        for process in self.processes:
            try:
                process.popen.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def a_cluster(folder: Path, settings: Mapping[str, Any], *, app: Path) -> Iterator[Cluster]:
    cluster = Cluster(folder, settings, app)
    try:
        yield cluster
    finally:
        cluster.stop()


def bare_environment() -> dict[str, str]:
    """That of this process, with no setting of Rota in it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}


def at_most(seconds: float) -> timedelta:
    """A bar on time that the system promises; longer where other tests run beside this one."""
    return timedelta(seconds=seconds * SHARED)


def wait_until(look: Callable[[], Any], what: str, *, patience_s: float = PATIENCE_S) -> Any:
    """Look again and again until there is something to see."""
    deadline = time.monotonic() + patience_s
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience_s} s for {what}")
        time.sleep(0.02)
    return seen


async def eventually(look: Callable[[], Awaitable[T | None]], what: str, *, patience_s: float = PATIENCE_S) -> T:
    """The same for what must be awaited. A server that is away meanwhile is no reason to stop looking."""
    deadline = time.monotonic() + patience_s
    while True:
        with suppress(UnavailableError):
            if (seen := await look()) is not None:
                return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience_s} s for {what}")
        await asyncio.sleep(0.05)


def _parse(line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except json.JSONDecodeError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"event": "text", "text": line}
