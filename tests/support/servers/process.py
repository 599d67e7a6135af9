"""A private server as a child process: started, watched, hurt and ended by tests.

What is easy to get wrong, and how it is done here:

- **It must not outlive the tests.** `setpriv --pdeathsig` asks Linux to signal the server when its parent dies, even by
  SIGKILL. Linux means the *thread* that forked, so `launch` insists on the main thread: started from
  `asyncio.to_thread`, a server would vanish when that pool ends. An async test that must not block its loop calls
  `launch()` and then `await asyncio.to_thread(server.wait_until_ready)`. `preexec_fn` would do the same, but warns on
  Python 3.12+ as soon as a second thread exists. Outside Linux the servers die with their fixtures only.
- **A server may be many processes.** Postgres forks one per session, each in its own process group. Pausing or killing
  only the first would leave sessions that still answer, so `pause`, `resume` and `kill` reach all descendants: the
  first is stopped before its children are listed, which makes the list complete.
- **SIGSTOP returns before its work is done**: threads on other cores run on for a moment, long enough to answer a
  query. `pause` returns when the kernel shows every thread as stopped.
- **A stopped process does not see SIGTERM**, so `stop` resumes first.
- **Ports are nobody else's.** Each process that runs tests has its own, and gives none twice in a row.
- **Ports come from below the ephemeral range.** On a port inside it, a client that reconnects while the server is down
  can be given that very port as its own and connect to itself; the server could then never come back.
- **Root is given up.** Postgres refuses root, so all servers run as `nobody` when the tests run as root, by `setpriv`:
  to change the user itself `subprocess` forks, and what gRPC does in such a child ends it now and then. Otherwise it
  asks for `vfork`, which gRPC has no part in.
"""

import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import SystemRandom
from typing import IO, NamedTuple, Self

READY_WITHIN = timedelta(seconds=20)  # crash recovery on a busy 2-core machine; below the 30 s limit of a test
STOP_GRACE = timedelta(seconds=10)
FREEZE_WITHIN = timedelta(seconds=5)  # a thread waiting for the disk stops only after
POLL_SECONDS = 0.02
FREEZE_POLL_SECONDS = 0.001
LOG_TAIL_BYTES = 4000
IDLE_STATES = frozenset("TtZX")  # stopped, traced, ended, gone
PORT_RANGE = (15_000, 32_000)  # Linux hands out 32768 and up to clients
PORT_TRIES = 50
_given: deque[int] = deque(maxlen=1000)  # the last ports that somebody was given


class ServerFailedError(RuntimeError):
    """A server or one of its tools did not do its work; the message ends with what it last said."""

    def __init__(self, problem: str, said: str) -> None:
        super().__init__(f"{problem}\n{said}")


class ServerMisusedError(RuntimeError):
    """A test asked for what this server cannot do in the state it is in."""


class NoFreePortError(RuntimeError):
    """Every port tried was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run, how to see that it answers, and which signals it takes well."""

    command: tuple[str, ...]
    is_ready: Callable[[], bool]
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL  # sent by the kernel when the tests die


class ProcessStat(NamedTuple):
    """What we read of a process or thread in /proc."""

    state: str
    parent: int


class ServerProcess:
    """One server with a folder of its own. Reusable: after `stop` or `kill`, `start` finds the same port and data."""

    def __init__(self, program: Program, directory: Path) -> None:
        self.directory = directory
        self._program = program
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log_path(self) -> Path:
        return self.directory / "server.log"

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> None:
        self.launch()
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def launch(self) -> None:
        """Start without waiting for an answer. Only from the main thread."""
        self._check_can_launch()
        command = [*_die_with_parent(self._program.orphan_signal), *self._program.command]
        with self.log_path.open("ab") as log:
            self._child = _spawn(command, self.directory, log=log)

    def wait_until_ready(self, within: timedelta = READY_WITHIN) -> None:
        """Wait until it answers; from any thread. Raises ServerFailedError, with the end of its log."""
        child = self._running()
        give_up_at = time.monotonic() + within.total_seconds()
        while not self._program.is_ready():
            problem = None
            if _ends_within(child, POLL_SECONDS):
                problem = f"ended with code {child.returncode}"
            elif time.monotonic() > give_up_at:
                problem = f"not ready after {within}"
            if problem is not None:
                raise ServerFailedError(problem, self._read_log_tail())

    def stop(self, grace: timedelta = STOP_GRACE) -> None:
        """End it the polite way; after `grace`, with SIGKILL. Nothing to do when it is down already."""
        if not self.is_running:
            return
        child = self._running()
        self.resume()
        child.send_signal(self._program.stop_signal)
        if not _ends_within(child, grace.total_seconds()):
            self.kill()

    def kill(self) -> None:
        """End it like a crash, all its processes at once, and return when the last one is gone."""
        if not self.is_running:
            return
        child = self._running()
        victims = _freeze_family(child.pid)
        endings = [_open_ending(pid) for pid in victims]
        for pid in victims:
            _signal(pid, signal.SIGKILL)
        child.wait()
        for ending in endings:
            _wait_for_ending(ending)

    def pause(self) -> None:
        """Freeze it: connections stay open and new ones are accepted by the kernel, but nothing answers."""
        family = _freeze_family(self.pid)
        for pid in family:
            _signal(pid, signal.SIGSTOP)
        if not all(_is_stopped_soon(pid) for pid in family):
            problem = f"still running {FREEZE_WITHIN} after SIGSTOP"
            raise ServerFailedError(problem, self._read_log_tail())

    def resume(self) -> None:
        for pid in _list_family(self.pid):
            _signal(pid, signal.SIGCONT)

    def restart(self) -> None:
        """Stop and start on the same port with the same data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End it for good and remove its folder."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _check_can_launch(self) -> None:
        problem = None
        if threading.current_thread() is not threading.main_thread():
            problem = "launch servers from the main thread: they die with the thread that started them"
        elif self.is_running:
            problem = f"{self._program.command[0]} is already running"
        if problem is not None:
            raise ServerMisusedError(problem)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            problem = f"{self._program.command[0]} was not started"
            raise ServerMisusedError(problem)
        return self._child

    def _read_log_tail(self) -> str:
        return self.log_path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")


def wait_for(look: Callable[[], bool], what: str, *, within: timedelta = READY_WITHIN) -> None:
    """Look until it is so. Raises ServerFailedError when it does not become so."""
    give_up_at = time.monotonic() + within.total_seconds()
    while not look():
        if time.monotonic() > give_up_at:
            raise ServerFailedError(f"waited {within} for {what}", "")
        time.sleep(POLL_SECONDS)


def free_port() -> int:
    """A loopback port nobody listens on, outside the range that clients are given ports from.

    Nobody else is given it for a while: until a server listens there, and while that is being restarted, it looks free.
    """
    for _ in range(PORT_TRIES):
        port = SystemRandom().choice(own_ports(os.environ))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.append(port)
            return port
    raise NoFreePortError(PORT_RANGE)


def own_ports(environment: Mapping[str, str]) -> range:
    """Those of this process among all that run tests at once. Beside four there may be gw4, in place of a dead one."""
    shares = 2 * int(environment.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    place = int(environment.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % shares
    size = (PORT_RANGE[1] - PORT_RANGE[0]) // shares
    return range(PORT_RANGE[0] + place * size, PORT_RANGE[0] + (place + 1) * size)


def private_directory(name: str) -> Path:
    """A new folder under the system's temporary folder, owned by whom the server runs as.

    Not pytest's `tmp_path`: `nobody` may not enter that when root runs the tests, and a Unix socket's path must stay
    under 108 bytes.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"rota-{name}-"))
    nobody = _nobody()
    if nobody is not None:
        os.chown(directory, nobody.pw_uid, nobody.pw_gid)
    return directory


def run_tool(command: Sequence[str], directory: Path) -> str:
    """Run a server's own tool to its end, as the server's user, and return what it printed."""
    finished = subprocess.run(  # noqa: S603 - a list of arguments, no shell
        [*_as_nobody(), *command],
        cwd=directory,
        env=_clean_environment(directory),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode != 0:
        problem = f"{command[0]} ended with code {finished.returncode}"
        raise ServerFailedError(problem, finished.stdout + finished.stderr)
    return finished.stdout


def _spawn(command: Sequence[str], directory: Path, *, log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
        [*_as_nobody(), *command],
        cwd=directory,
        env=_clean_environment(directory),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for pytest, whose fixtures then stop the server in order
    )


def _die_with_parent(orphan_signal: signal.Signals) -> list[str]:
    # Set after the user was changed: a change of user clears it.
    return ["setpriv", "--pdeathsig", orphan_signal.name, "--"] if sys.platform == "linux" else []


def _nobody() -> pwd.struct_passwd | None:
    """Whom servers run as, where it is not whoever starts them."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _as_nobody() -> list[str]:
    nobody = _nobody()
    if nobody is None:
        return []
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", "--"]


def _clean_environment(directory: Path) -> dict[str, str]:
    # Nothing of the developer's: PGPORT, MYSQL_HOME or a ~/.my.cnf would lead the tools to another server.
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(directory), "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def _ends_within(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # ended by itself since we listed it


def _freeze_family(pid: int) -> list[int]:
    _signal(pid, signal.SIGSTOP)
    _is_stopped_soon(pid)  # forks no more from here on
    return _list_family(pid)


def _list_family(pid: int) -> list[int]:
    """The process and all its descendants, parents first; outside Linux, the process alone."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        children.setdefault(_read_stat(stat).parent, []).append(int(stat.parent.name))
    family = [pid]
    for member in family:  # grows while we walk it
        family.extend(children.get(member, ()))
    return family


def _is_stopped_soon(pid: int) -> bool:
    """Wait until every thread of the process is stopped or gone."""
    give_up_at = time.monotonic() + FREEZE_WITHIN.total_seconds()
    while not all(_read_stat(stat).state in IDLE_STATES for stat in Path(f"/proc/{pid}/task").glob("*/stat")):
        if time.monotonic() > give_up_at:
            return False
        time.sleep(FREEZE_POLL_SECONDS)  # the kernel tells only a parent, and sessions are not our children
    return True


def _read_stat(path: Path) -> ProcessStat:
    try:
        # After the name, which may itself hold spaces and brackets: state, parent, ...
        state, parent, *_ = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ProcessStat("X", 0)  # ended while we looked
    return ProcessStat(state, int(parent))


def _open_ending(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, whoever its parent is then."""
    try:
        return os.pidfd_open(pid) if sys.platform == "linux" else None
    except ProcessLookupError:
        return None


def _wait_for_ending(ending: int | None) -> None:
    if ending is None:
        return
    try:
        select.select([ending], [], [], STOP_GRACE.total_seconds())
    finally:
        os.close(ending)
