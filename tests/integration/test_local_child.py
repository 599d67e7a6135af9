"""The child's side of the socket, run in this process."""

import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rota.infrastructure.executors.local import child as child_module
from rota.infrastructure.executors.local.child import Child, JobChannel, Wire, die_with_parent, main, prepare
from rota.infrastructure.executors.local.frames import (
    FOR_WORKER,
    Broken,
    Ended,
    FrameBuffer,
    Hello,
    Line,
    Progress,
    Ready,
    Run,
    Stop,
    ToChild,
    ToWorker,
    encode,
)
from rota.sdk.context import Facts
from tests.support import local_app

APP = "tests.support.local_app"


class Worker:
    """The other end."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, message: ToChild) -> None:
        self.sock.sendall(encode(message))

    def read(self) -> list[ToWorker]:
        """Everything that was sent so far."""
        return list(FrameBuffer().feed(self.sock.recv(1 << 20), FOR_WORKER))


@pytest.fixture
def worker_and_wire() -> Iterator[tuple[Worker, Wire]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Worker(ours), Wire(theirs)


def a_run(task_type: str, payload: str = "{}", *, function: str | None = None) -> Run:
    facts = Facts(task_id="1", type=task_type, attempt=1, retry_count=0, metadata={}, deadline=0.0)
    return Run(function or f"{APP}:{task_type}", payload, facts)


def test_a_child_runs_what_it_is_sent_until_the_socket_ends(worker_and_wire: tuple[Worker, Wire]) -> None:
    worker, wire = worker_and_wire
    worker.send(a_run("add", '{"left": 1}'))
    worker.send(Stop())  # for a job that has just ended
    worker.send(a_run("local.add", '{"left": 2}', function="__main__:add"))
    worker.sock.shutdown(socket.SHUT_WR)

    Child(wire).serve()

    results = [message.result for message in worker.read() if isinstance(message, Ended)]
    assert [result and result.data for result in results] == ['{"sum":2}', '{"sum":3}']


def test_a_function_that_cannot_be_found_is_told(worker_and_wire: tuple[Worker, Wire]) -> None:
    _, wire = worker_and_wire

    ended = Child(wire).run(a_run("x", function="no.such:function"))

    assert ended.error is not None
    assert ended.error.code == "function_not_found"


def test_what_a_job_says_is_sent_until_it_has_ended(worker_and_wire: tuple[Worker, Wire]) -> None:
    worker, wire = worker_and_wire
    channel = JobChannel(wire)
    speaker = threading.Thread(target=channel.log, args=("info", "from a thread"), kwargs={"fields": {}})
    speaker.start()
    speaker.join()
    channel.progress(0.5, "half way")
    channel.close()
    channel.log("info", "too late", fields={})
    channel.progress(1.0, "too late")

    assert worker.read() == [Line("info", "from a thread", ""), Progress(0.5, "half way")]
    assert channel.monotonic() > 0


def test_a_stop_is_raised_in_the_function_once_and_only_when_the_worker_asked(
    worker_and_wire: tuple[Worker, Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, wire = worker_and_wire
    child = Child(wire)
    seen: list[str] = []

    def function(ctx: Any) -> None:
        child.on_terminate(signal.SIGTERM, None)
        seen.append("nobody asked")
        worker.send(Stop())
        try:
            child.on_terminate(signal.SIGTERM, None)
        finally:
            child.on_terminate(signal.SIGTERM, None)
            seen.append(f"tidied, cancelled: {ctx.cancelled}")

    function.__module__ = local_app.__name__  # only what is a module's own can be named
    monkeypatch.setattr(local_app, "undecorated", function)
    ended = child.run(a_run("undecorated"))

    assert seen == ["nobody asked", "tidied, cancelled: True"]
    assert ended == Ended(is_worn=True)
    child.on_terminate(signal.SIGTERM, None)  # between jobs it means nothing


def test_a_stop_never_cuts_a_frame_in_half(
    worker_and_wire: tuple[Worker, Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, wire = worker_and_wire
    child = Child(wire)

    def detail_then_signal(frame: bytes) -> None:
        worker.send(Stop())
        child.on_terminate(signal.SIGTERM, None)  # arrives while the frame is being written
        wire._sock.sendall(frame)

    def function(ctx: Any) -> None:
        monkeypatch.setattr(wire, "_write", detail_then_signal)
        ctx.log.info("whole")
        raise AssertionError("the stop comes right after the frame")

    function.__module__ = local_app.__name__  # only what is a module's own can be named
    monkeypatch.setattr(local_app, "undecorated", function)

    assert child.run(a_run("undecorated")) == Ended(is_worn=True)
    assert worker.read() == [Line("info", "whole", "")]


def test_a_child_whose_worker_is_gone_kills_its_group(
    worker_and_wire: tuple[Worker, Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, wire = worker_and_wire
    killed = threading.Event()
    monkeypatch.setattr(os, "killpg", lambda *_: killed.set())
    monkeypatch.setattr(child_module, "LONGEST_EXIT_S", 0.0)
    wire.watch(Child(wire).on_hangup)

    worker.send(Stop())  # data is no hang-up
    worker.sock.close()

    assert killed.wait(20)
    wire.send(Ready())  # nobody hears it, and that is no error


def test_an_app_is_loaded_before_the_limits_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[Any] = []
    monkeypatch.setattr(resource, "setrlimit", lambda *limit: limits.append(limit))
    path = list(sys.path)

    assert prepare(Hello(path=path, app=APP, memory_limit=None, parent=1)) == Ready()
    assert limits == []
    assert prepare(Hello(path=path, app=None, memory_limit=1000, parent=1)) == Ready()
    assert limits == [(resource.RLIMIT_AS, (1000, 1000))]
    broken = prepare(Hello(path=path, app="no_such_app", memory_limit=None, parent=1))
    assert isinstance(broken, Broken)
    assert "no_such_app" in broken.message


def test_a_child_of_another_parent_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(sys, "platform", "other")

    die_with_parent(parent=0)

    assert codes == [1]


def test_a_child_that_is_not_greeted_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(sys, "argv", ["child", str(theirs.detach())])
    ours.close()

    main()
