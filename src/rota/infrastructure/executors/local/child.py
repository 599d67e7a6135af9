"""The process that runs plain functions, one at a time: `python -m rota.infrastructure.executors.local.child FD`.

It is started by `exec`, never by forking the worker, whose threads and locks a fork would copy half-way. It imports no
event loop and no database, so that it starts fast and stays small.

It ends when the worker does: the kernel kills it then (Linux), and the end of the socket ends it anywhere. A soft stop
is a `Stop` frame and then SIGTERM; the handler raises `StopError` inside the function. SIGTERM from somebody else, as
from a supervisor that signals every process of a service, is ignored: the worker drains, and its tasks may finish.
"""

import contextlib
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from rota.domain.attempt import Cancelled, Failed, Outcome, TaskError
from rota.domain.checks import MAX_LINE, MAX_MESSAGE, tidy_text
from rota.infrastructure.executors.local.frames import (
    FOR_CHILD,
    Broken,
    Ended,
    FrameBuffer,
    Hello,
    Line,
    Progress,
    Ready,
    Run,
    ToChild,
    ToWorker,
    encode,
    ended_by,
)
from rota.infrastructure.executors.local.lines import detail_of
from rota.infrastructure.parent_death import ask_for_signal
from rota.sdk.app import AppRef, load_function
from rota.sdk.context import Context
from rota.sdk.control import StopError
from rota.sdk.handler import Handler
from rota.sdk.results import traceback_of
from rota.sdk.tasks import REGISTRY, TaskFunction

CHUNK = 64 * 1024
LONGEST_EXIT_S = 5.0  # for exit handlers of user code once the worker has closed the socket
OOM_SCORE = "500"  # when memory runs out, the kernel should take a task rather than the worker


class Wire:
    """The socket to the worker. Any thread may send; a stop never cuts a frame in half."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._buffer = FrameBuffer()
        self._ready: list[ToChild] = []
        self._main = threading.get_ident()
        self._is_sending = False  # by the main thread
        self.is_stop_due = False

    def receive(self) -> ToChild | None:
        """The next message; None when the worker is gone."""
        while not self._ready:
            data = self._sock.recv(CHUNK)
            if not data:
                return None
            self._ready.extend(self._buffer.feed(data, FOR_CHILD))
        return self._ready.pop(0)

    def send(self, message: ToWorker) -> None:
        frame = encode(message)
        if threading.get_ident() != self._main:
            self._write(frame)
            return
        self._is_sending = True
        try:
            self._write(frame)
        finally:
            self._is_sending = False
        if self.is_stop_due:
            self.is_stop_due = False
            raise StopError

    def has_word(self) -> bool:
        """Whether the worker has sent something that was not read yet: during a job it can only be `Stop`."""
        try:
            return bool(self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False

    def stop(self) -> None:
        """Raise `StopError` in the main thread: now, or as soon as the frame it is sending is out."""
        if self._is_sending:
            self.is_stop_due = True
            return
        raise StopError

    def watch(self, on_hangup: Callable[[], None]) -> None:
        """Call back, in a thread of its own, when the worker has closed its end or died."""
        poll = select.poll()
        poll.register(self._sock, 0)  # a hang-up is told without being asked for; data is the main thread's

        def wait() -> None:
            poll.poll()
            on_hangup()

        threading.Thread(target=wait, name="rota-lifeline", daemon=True).start()

    def _write(self, frame: bytes) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the worker is gone: so are we
            self._sock.sendall(frame)


class JobChannel:
    """What the context of one job speaks through; closed with it, so that a thread left behind speaks for nobody."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._is_open = True
        self.is_stopped = False

    def log(self, level: str, message: str, *, fields: Mapping[str, Any]) -> None:
        if self._is_open:
            self._wire.send(Line(level, tidy_text(str(message), longest=MAX_LINE), detail_of(fields)))

    def progress(self, fraction: float, message: str) -> None:
        if self._is_open:
            self._wire.send(Progress(fraction, tidy_text(message, longest=MAX_MESSAGE)))

    def is_cancelled(self) -> bool:
        return self.is_stopped

    def monotonic(self) -> float:
        return time.monotonic()  # noqa: TID251 - the system clock's module brings an event loop along

    def close(self) -> None:
        self._is_open = False


class Child:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._handlers: dict[str, Handler] = {}
        self._running: JobChannel | None = None  # while a stop may be raised

    def serve(self) -> None:
        """Run what the worker sends, until it closes the socket."""
        while True:
            match self._wire.receive():
                case None:
                    return
                case Run() as job:
                    self._wire.send(self.run(job))
                case _:
                    continue  # a stop for a job that has just ended

    def run(self, job: Run) -> Ended:
        channel = JobChannel(self._wire)
        try:
            try:
                self._running = channel
                outcome = self._call(job, channel)
            finally:
                self._running = None
        except StopError:
            self._running, self._wire.is_stop_due = None, False
            outcome = Cancelled()
        channel.close()
        _flush()
        is_out_of_memory = isinstance(outcome, Failed) and outcome.error.code == "MemoryError"
        return ended_by(outcome, is_worn=is_out_of_memory)

    def on_terminate(self, _signal: int, _frame: FrameType | None) -> None:
        """SIGTERM: the stop of the running job, if the worker asked for it. At most once a job."""
        channel = self._running
        if channel is not None and not channel.is_stopped and self._wire.has_word():
            channel.is_stopped = True
            self._wire.stop()

    def on_hangup(self) -> None:
        """The worker is gone. What runs is nobody's any more."""
        if self._running is None:
            threading.Event().wait(LONGEST_EXIT_S)  # the main thread sees it too, and ends in good order
        os.killpg(0, signal.SIGKILL)

    def _call(self, job: Run, channel: JobChannel) -> Outcome:
        handler = self._handlers.get(job.function)
        if handler is None:
            try:
                handler = self._handlers[job.function] = _find_handler(job)
            except StopError:
                raise
            except BaseException as exc:  # importing is running user code: anything may come out
                return Failed(TaskError("function_not_found", f"{job.function}: {exc}", traceback_of(exc)))
        return handler.run(job.payload, Context(job.facts, channel))


def _find_handler(job: Run) -> Handler:
    # By type first: a script's functions belong to `__main__` there, and to the app here.
    found = REGISTRY.find(job.facts.type)
    module = job.function.partition(":")[0]
    if found is None or (found.reference != job.function and module != "__main__"):
        function = load_function(job.function)
        return Handler(function.function if isinstance(function, TaskFunction) else function)
    return Handler(found.function)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # user code may have closed or replaced it
            stream.flush()


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when the worker dies, however it dies."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    ask_for_signal(signal.SIGKILL, parent=parent)


def prepare(hello: Hello) -> Ready | Broken:
    """Load the app, then set the limits, which are for the tasks."""
    sys.path[:] = hello.path
    try:
        if hello.app is not None:
            AppRef(hello.app).load()
    except BaseException as exc:  # the app is user code: anything may come out
        return Broken(tidy_text(f"{type(exc).__name__}: {exc}", longest=MAX_MESSAGE), traceback_of(exc))
    if hello.memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (hello.memory_limit, hello.memory_limit))
    return Ready()


def main() -> None:
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)  # a program that a task starts must not keep it open
    wire = Wire(sock)
    hello = wire.receive()
    if not isinstance(hello, Hello):
        sock.close()
        return
    die_with_parent(hello.parent)
    child = Child(wire)
    wire.watch(child.on_hangup)
    signal.signal(signal.SIGTERM, child.on_terminate)
    state = prepare(hello)
    wire.send(state)
    if isinstance(state, Ready):
        child.serve()


if __name__ == "__main__":
    main()
