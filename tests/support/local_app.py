"""Tasks for the tests of the local executor: well-behaved ones, and every kind of bad one."""

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import rota

RELEASE = threading.Event()  # ends what blocks in this process


@rota.task("local.add")
def add(left: int, right: int = 1) -> dict[str, int]:
    return {"sum": left + right}


@rota.task("local.async_add")
async def async_add(ctx: rota.Context, *, left: int, right: int = 1) -> dict[str, int]:
    ctx.log.info("adding", left=left)
    await ctx.progress(0.5, "half way")
    return {"sum": left + right}


@rota.task("local.thread_add", isolation="thread")
def thread_add(ctx: rota.Context, left: int) -> dict[str, int]:
    ctx.log.info("adding", left=left)
    _ = ctx.progress(0.5, "half way")
    return {"sum": left + 1}


@rota.task("local.who")
def who() -> int:
    return os.getpid()


@rota.task("local.tell")
def tell(ctx: rota.Context) -> dict[str, object]:
    ctx.log.warning("telling", id=ctx.task_id)
    _ = ctx.progress(0.25, "a quarter")
    facts = [ctx.type, ctx.attempt, ctx.retry_count, dict(ctx.metadata), ctx.cancelled]
    return {"facts": facts, "left": ctx.deadline.total_seconds()}


@rota.task("local.spin")
def spin(ctx: rota.Context) -> None:
    turns = 0
    try:
        ctx.log.info("begun")
        while True:
            turns += 1
    finally:
        ctx.log.info("tidied", cancelled=ctx.cancelled)
        print("tidied too")


@rota.task("local.stubborn")
def stubborn(ctx: rota.Context) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])  # noqa: S607 - whichever there is
    ctx.log.info("begun", pid=os.getpid(), sleeper=sleeper.pid)
    while True:
        try:
            time.sleep(600)
        except BaseException as exc:
            ctx.log.info("ignored", what=type(exc).__name__)


@rota.task("local.finish")
def finish(ctx: rota.Context) -> str:
    try:
        ctx.log.info("begun")
        time.sleep(600)
    except BaseException:
        return "made it"
    return "never stopped"


@rota.task("local.miss_a_signal")
def miss_a_signal(ctx: rota.Context) -> str:
    handler = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, handler))
    return finish.function(ctx)


@rota.task("local.read")
def read(ctx: rota.Context, path: str) -> str:
    ctx.log.info("begun", pid=os.getpid())
    return Path(path).read_text()


@rota.task("local.exit")
def exit_hard() -> None:
    os._exit(3)


@rota.task("local.answer_and_exit")
def answer_and_exit(ctx: rota.Context) -> str:
    """Answers when it is sent SIGUSR1, with more than is read at once."""
    may_end = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: may_end.set())
    threading.Thread(target=exit_when_answered, daemon=True).start()
    ctx.log.info("begun", pid=os.getpid())
    while not may_end.wait(0.001):  # a wait without an end could miss the signal that comes just before it
        pass
    for _ in range(10):
        ctx.log.info("y" * 1_000)
    return "x" * 60_000


def exit_when_answered() -> None:
    main = threading.main_thread().ident or 0
    while sys._current_frames()[main].f_code.co_name != "receive":  # the next job: the answer to this one is out
        time.sleep(0.001)
    os._exit(0)


@rota.task("local.exit_politely")
def exit_politely() -> None:
    sys.exit(4)


@rota.task("local.segfault")
def segfault() -> None:
    ctypes.string_at(0)


@rota.task("local.hoard")
def hoard() -> int:
    return len(bytearray(8 * 1024**3))


@rota.task("local.recurse")
def recurse() -> None:
    def deeper() -> None:
        deeper()

    deeper()


@rota.task("local.say")
def say(times: int = 1) -> None:
    for _ in range(times):
        print("to stdout " + "x" * 90)
    print("to stderr", file=sys.stderr)
    os.write(1, b"no newline")


@rota.task("local.scribble")
def scribble() -> None:
    os.write(int(sys.argv[1]), b"\xff" * 64)
    time.sleep(600)


@rota.task("local.hang_up")
def hang_up() -> None:
    socket.socket(fileno=int(sys.argv[1])).shutdown(socket.SHUT_RDWR)
    time.sleep(600)


@rota.task("local.measure")
def measure(text: str) -> int:
    return len(text)


@rota.task("local.wait")
async def wait(ctx: rota.Context) -> None:
    try:
        ctx.log.info("begun")
        await asyncio.Event().wait()
    finally:
        ctx.log.info("tidied", cancelled=ctx.cancelled)


@rota.task("local.async_stubborn")
async def async_stubborn(ctx: rota.Context) -> None:
    ctx.log.info("begun")
    while not RELEASE.is_set():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            ctx.log.info("ignored")


@rota.task("local.async_swallow")
async def async_swallow(ctx: rota.Context) -> None:
    """Takes its first cancellation for something else, as a loop with a bare `except` does."""
    with contextlib.suppress(asyncio.CancelledError):
        ctx.log.info("begun")
        await asyncio.Event().wait()
    await asyncio.Event().wait()


@rota.task("local.async_finish")
async def async_finish(ctx: rota.Context) -> str:
    try:
        ctx.log.info("begun")
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "made it"
    return "never stopped"


@rota.task("local.async_cancels_itself")
async def async_cancels_itself() -> None:
    raise asyncio.CancelledError


@rota.task("local.async_exit")
async def async_exit() -> None:
    sys.exit(4)


@rota.task("local.async_closes_itself")
async def async_closes_itself() -> None:
    raise GeneratorExit


@rota.task("local.async_recurse")
async def async_recurse() -> None:
    await async_recurse.function()


@rota.task("local.async_cancels_all")
async def async_cancels_all() -> None:
    """Cancels its neighbours as soon as there are some."""
    while len(asyncio.all_tasks()) < 2:  # noqa: ASYNC110 nobody sets an event for a task that has not begun
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


@rota.task("local.async_stops_its_loop")
async def async_stops_its_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.Event().wait()


@rota.task("local.async_floods_and_stops_its_loop")
async def async_floods_and_stops_its_loop(ctx: rota.Context, lines: int) -> None:
    for number in range(lines):
        ctx.log.info(str(number))
    await async_stops_its_loop.function()


@rota.task("local.async_starts_an_exit")
async def async_starts_an_exit() -> None:
    await asyncio.create_task(async_exit.function())


@rota.task("local.async_block")
async def async_block(ctx: rota.Context) -> None:
    ctx.log.info("begun")
    RELEASE.wait(20)


@rota.task("local.thread_wait", isolation="thread")
def thread_wait(ctx: rota.Context) -> str:
    ctx.log.info("begun")
    while not ctx.cancelled:
        time.sleep(0.001)
    return "stopped by itself"


@rota.task("local.thread_block", isolation="thread")
def thread_block(ctx: rota.Context) -> None:
    ctx.log.info("begun")
    RELEASE.wait(20)
    ctx.log.info("too late")


def undecorated(left: int) -> int:
    return left * 2


async def undecorated_async(left: int) -> int:
    return left * 3


NOT_A_FUNCTION: Callable[..., None] | None = None
