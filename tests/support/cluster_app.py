"""The tasks of the end-to-end tests. Each run leaves a line in a ledger of its own, beside what Rota says of it."""

import asyncio
import ctypes
import json
import os
import time
from pathlib import Path

import rota

LEDGER = os.environ.get("ROTA_TEST_LEDGER", os.devnull)


def note(ctx: rota.Context, what: str) -> None:
    """One line in one write: appends of several processes do not mix."""
    line = json.dumps({"task": str(ctx.task_id), "attempt": ctx.attempt, "what": what, "pid": os.getpid()})
    with Path(LEDGER).open("a", encoding="utf-8") as ledger:
        ledger.write(line + "\n")


@rota.task("noop")
async def noop(ctx: rota.Context) -> None:
    note(ctx, "ran")


@rota.task("stamp")
async def stamp(ctx: rota.Context) -> dict[str, float]:
    return {"at": time.time()}


@rota.task("nap", timeout="2m")
async def nap(ctx: rota.Context, seconds: float = 1.0) -> None:
    note(ctx, "began")
    await asyncio.sleep(seconds)
    note(ctx, "ran")


@rota.task("second_time_lucky", timeout="2m")
async def second_time_lucky(ctx: rota.Context) -> None:
    note(ctx, "began")
    await asyncio.sleep(60 if ctx.attempt == 1 else 0)


@rota.task("work", timeout="2m")
def work(ctx: rota.Context, seconds: float = 0.0) -> str:
    note(ctx, "began")
    time.sleep(seconds)
    note(ctx, "ran")
    return "done"


@rota.task("block_loop", timeout="1m")
async def block_loop(ctx: rota.Context, seconds: float = 20.0) -> None:
    note(ctx, "began")
    time.sleep(seconds)  # noqa: ASYNC251 the very mistake that must not take a worker down


@rota.task("spin", timeout="2s", retries=0)
def spin(ctx: rota.Context) -> None:
    note(ctx, "began")
    while True:
        pass


@rota.task("swallow", timeout="1s", retries=0)
async def swallow(ctx: rota.Context) -> None:
    while True:
        try:
            await asyncio.sleep(1)
        except BaseException as exc:  # the very mistake that must not keep a process from ending
            note(ctx, type(exc).__name__)


@rota.task("hold_a_thread", timeout="1s", retries=0)
async def hold_a_thread(ctx: rota.Context) -> None:
    await asyncio.to_thread(time.sleep, 600)


@rota.task("leave", retries=0)
def leave(ctx: rota.Context) -> None:
    os._exit(3)


@rota.task("crash", retries=0)
def crash(ctx: rota.Context) -> None:
    ctypes.string_at(0)


@rota.task("gorge", retries=0)
def gorge(ctx: rota.Context, megabytes: int = 2048) -> int:
    return len(bytearray(megabytes << 20))


@rota.task("flaky", retries=3, retry_delay="100ms")
async def flaky(ctx: rota.Context, failures: int = 1) -> int:
    note(ctx, "ran")
    if ctx.attempt <= failures:
        raise RuntimeError(f"attempt {ctx.attempt} fails")
    return ctx.attempt


@rota.task("outside", timeout="1m", retries=0)
async def outside(ctx: rota.Context) -> None:
    note(ctx, ctx.callback)
    raise rota.Defer


@rota.task("outside_in_a_child", timeout="1m", retries=0)
def outside_in_a_child(ctx: rota.Context) -> None:
    note(ctx, ctx.callback)
    raise rota.Defer


@rota.task("limited", max_concurrent=2)
async def limited(ctx: rota.Context, seconds: float = 0.2) -> None:
    note(ctx, "began")
    await asyncio.sleep(seconds)
    note(ctx, "ran")
