"""The worker's side of one child process: start it, give it jobs, stop it, bury it.

The kernel tells of its end (by a pid descriptor); one that closed its socket or sends what is no frame is killed.
Whatever it has sent before is read first, so that a result is not lost because the process went away right after it.
Its whole process group is killed before it is reaped: what a task started does not outlive it.

It must be started on the control loop's own thread: the kernel's signal at the parent's death is tied to the thread.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from datetime import timedelta
from typing import Protocol

import structlog

from rota.application.ports.executor import LogLevel, Reports
from rota.domain.attempt import TaskError
from rota.infrastructure.executors.local.frames import (
    FOR_WORKER,
    Broken,
    Ended,
    FrameBuffer,
    FrameError,
    Hello,
    Line,
    Progress,
    Ready,
    Run,
    Stop,
    ToWorker,
    encode,
)
from rota.infrastructure.executors.local.lines import PrintedLines
from rota.infrastructure.executors.local.waiting import wait_out

CHUNK = 64 * 1024
MODULE = "rota.infrastructure.executors.local.child"
EXIT_GRACE = timedelta(milliseconds=500)  # between the end of the socket and the end of the process
KILL_WAIT = timedelta(seconds=5)  # for the kernel; longer only when the process hangs in a device

log = structlog.get_logger(__name__)


class ChildDiedError(Exception):
    """The process ended before it answered; `error` is what becomes of the attempt."""

    def __init__(self, error: TaskError) -> None:
        super().__init__(error.message)
        self.error = error


class _Death(Protocol):
    def __call__(self, child: "ChildProcess", /) -> None: ...


class ChildProcess:
    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket, *, on_death: _Death) -> None:
        self._process = process
        self._sock = sock
        self._on_death = on_death
        self._loop = asyncio.get_running_loop()
        self._buffer = FrameBuffer()
        self._reports: Reports | None = None
        self._printed = [PrintedLines(self._say_out), PrintedLines(self._say_err)]
        self._begun: asyncio.Future[Ready | Broken | None] = self._loop.create_future()
        self.answer: asyncio.Future[Ended] = self._loop.create_future()
        self.died: asyncio.Future[None] = self._loop.create_future()
        self.jobs = 0
        self.idle_since = 0.0
        self._exit_fd: int | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return not self.died.done()

    @classmethod
    async def start(cls, hello: Hello, *, within: timedelta, on_death: _Death) -> "ChildProcess":
        """A process that has loaded the app. Raises `ChildDiedError` when it cannot."""
        child = cls(*_spawn(), on_death=on_death)
        child._watch()
        try:
            await child._send(encode(hello))
            async with asyncio.timeout(within.total_seconds()):
                await child._begun
        except TimeoutError as exc:
            await child.kill()
            message = f"the task's process was not ready after {within.total_seconds():g} s"
            raise ChildDiedError(TaskError("worker_process_slow", message)) from exc
        except BaseException:
            await child.kill()
            raise
        state = child._begun.result()
        if state is None:
            raise ChildDiedError(child.describe_death())
        if isinstance(state, Broken):
            await child.kill()
            raise ChildDiedError(TaskError("app_broken", f"the app cannot be loaded: {state.message}", state.detail))
        return child

    async def run(self, job: Run, reports: Reports) -> Ended:
        """Run one job to its answer. Raises `ChildDiedError` when the process ends first."""
        if not self.is_alive:
            raise ChildDiedError(self.describe_death())
        self.jobs += 1
        self._reports = reports
        self._printed = [PrintedLines(self._say_out), PrintedLines(self._say_err)]
        self.answer = self._loop.create_future()
        try:
            await self._send(encode(job))
        except asyncio.CancelledError:
            self.signal_group(signal.SIGKILL)  # it got half a job at most
            raise
        if not self.is_alive:
            raise ChildDiedError(self.describe_death())
        ended = await asyncio.shield(self.answer)  # cancelled, it may still come within the grace
        self.quieten()
        return ended

    def quieten(self) -> None:
        """The attempt is over: what is still printed is nobody's."""
        for stream in (0, 1) if self.is_alive else ():  # of one that died, all was read before it was buried
            self._read_printed(stream)
            self._printed[stream].flush()
        self._reports = None

    def ask_to_stop(self) -> None:
        """Softly: `finally` blocks run. The process takes no other job afterwards."""
        try:
            self._sock.send(encode(Stop()))
        except OSError:
            self.signal_group(signal.SIGKILL)  # gone, or not reading at all
        else:
            self.remind_to_stop()

    def remind_to_stop(self) -> None:
        if self.is_alive:
            os.kill(self.pid, signal.SIGTERM)

    async def end(self, grace: timedelta) -> None:
        """Close the socket, which ends an idle process; kill it when it does not."""
        if self.is_alive:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)
            if not await wait_out(self.died, grace):
                await self.kill()

    async def kill(self) -> bool:
        """Kill the whole process group; whether it is gone."""
        self.signal_group(signal.SIGKILL)
        is_gone = await wait_out(self.died, KILL_WAIT)
        if not is_gone:
            log.error("child.unkillable", pid=self.pid)
        return is_gone

    def signal_group(self, number: signal.Signals) -> None:
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def describe_death(self) -> TaskError:
        code = self._process.returncode
        if code < 0:
            hint = " (SIGKILL: out of memory, perhaps)" if -code == signal.SIGKILL else ""
            how = f"ended with signal {-code}{hint}"
        else:
            how = f"ended with exit {code}"
        return TaskError("worker_process_died", f"the task's process {how}")

    async def _send(self, frame: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its end is told by `died`
            await self._loop.sock_sendall(self._sock, frame)

    def _watch(self) -> None:
        self._loop.add_reader(self._sock.fileno(), self._on_readable)
        for stream in (0, 1):
            self._loop.add_reader(self._fd(stream), self._read_printed, stream)
        try:
            self._exit_fd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or an old kernel
            threading.Thread(target=self._wait_for_exit, name=f"rota-child-{self.pid}", daemon=True).start()
        else:
            self._loop.add_reader(self._exit_fd, self._bury)

    def _wait_for_exit(self) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)  # unreaped, its group cannot be mistaken for another
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._bury)

    def _on_readable(self) -> None:
        try:
            data = self._sock.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._sock.fileno())
            self._loop.call_later(EXIT_GRACE.total_seconds(), self.signal_group, signal.SIGKILL)
            return
        try:
            for message in self._buffer.feed(data, FOR_WORKER):
                self._take(message)
        except FrameError as exc:
            log.warning("child.bad_frame", pid=self.pid, error=str(exc))
            self._loop.remove_reader(self._sock.fileno())
            self.signal_group(signal.SIGKILL)

    def _take(self, message: ToWorker) -> None:
        match message:
            case Ready() | Broken():
                if not self._begun.done():
                    self._begun.set_result(message)
            case Ended():
                if not self.answer.done():
                    self.answer.set_result(message)
            case Line(level, text, detail):
                if self._reports is not None:
                    self._reports.log(text, level=LogLevel(level), detail=detail)
            case Progress(fraction, text):
                if self._reports is not None:
                    self._reports.progress(fraction, text)

    def _bury(self) -> None:
        """It is dead: read what it left, kill what is left of its group, reap it."""
        self._unwatch()
        self._read_rest()
        self.signal_group(signal.SIGKILL)
        self._process.wait()  # it is a zombie: this takes no time
        self.quieten()
        self._close()
        self.died.set_result(None)
        if not self._begun.done():
            self._begun.set_result(None)
        if not self.answer.done():
            self.answer.set_exception(ChildDiedError(self.describe_death()))
            self.answer.exception()  # whoever waits gets it; where nobody does, it is no news
        self._on_death(self)

    def _read_rest(self) -> None:
        with contextlib.suppress(OSError, FrameError):
            while data := self._sock.recv(CHUNK):
                for message in self._buffer.feed(data, FOR_WORKER):
                    self._take(message)

    def _unwatch(self) -> None:
        self._loop.remove_reader(self._sock.fileno())
        for stream in (0, 1):
            self._loop.remove_reader(self._fd(stream))
        if self._exit_fd is not None:
            self._loop.remove_reader(self._exit_fd)

    def _close(self) -> None:
        self._sock.close()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        if self._exit_fd is not None:
            os.close(self._exit_fd)

    def _fd(self, stream: int) -> int:
        pipe = (self._process.stdout, self._process.stderr)[stream]
        assert pipe is not None, "started with both"  # noqa: S101 - for the type checker
        return pipe.fileno()

    def _read_printed(self, stream: int) -> None:
        try:
            data = os.read(self._fd(stream), CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        if not data:  # it closed its stream
            self._loop.remove_reader(self._fd(stream))
            return
        self._printed[stream].feed(data)

    def _say_out(self, line: str) -> None:
        self._say(line, LogLevel.INFO)

    def _say_err(self, line: str) -> None:
        self._say(line, LogLevel.WARNING)

    def _say(self, line: str, level: LogLevel) -> None:
        if self._reports is None:
            log.debug("child.printed", pid=self.pid, line=line)
        else:
            self._reports.log(line, level=level)


def _spawn() -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-P", "-u", "-X", "faulthandler", "-m", MODULE, str(theirs.fileno())]
        process = subprocess.Popen(  # noqa: S603 - our own module by our own interpreter
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pass_fds=(theirs.fileno(),),
            process_group=0,
        )
    ours.setblocking(False)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
    return process, ours
