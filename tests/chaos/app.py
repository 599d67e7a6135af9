"""The tasks of the chaos runs. Their ledger is their own: one line in one write, whatever becomes of the process."""

import asyncio
import json
import os
import signal
import time

import rota

LEDGER = os.environ.get("ROTA_TEST_LEDGER", os.devnull)


def note(ctx: rota.Context, kind: str, *, nonce: str) -> None:
    line = {"op": "call", "type": kind, "task": str(ctx.task_id), "attempt": ctx.attempt, "nonce": nonce}
    line |= {"at": time.monotonic()}
    ledger = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(ledger, json.dumps(line).encode() + b"\n")
    os.close(ledger)


async def work(ctx: rota.Context, seconds: float, *, failures: int = 0) -> str:
    nonce = os.urandom(8).hex()
    note(ctx, "invoke", nonce=nonce)
    await asyncio.sleep(seconds)
    if ctx.retry_count < failures:
        note(ctx, "fail", nonce=nonce)
        raise RuntimeError("as it was told")
    note(ctx, "ok", nonce=nonce)
    return nonce


@rota.task("quick", timeout="30s", retries=3, retry_delay="200ms")
async def quick(ctx: rota.Context, seconds: float = 0.02, *, pad: str = "") -> str:
    return await work(ctx, seconds)


@rota.task("slow", timeout="30s", retries=3, retry_delay="200ms")
async def slow(ctx: rota.Context, seconds: float = 1.0) -> str:
    return await work(ctx, seconds)


@rota.task("shaky", timeout="30s", retries=3, retry_delay="200ms")
async def flaky(ctx: rota.Context) -> str:
    return await work(ctx, 0.02, failures=1)


@rota.task("bounded", timeout="30s", retries=3, retry_delay="200ms", max_concurrent=4)
async def limited(ctx: rota.Context) -> str:
    return await work(ctx, 0.1)


@rota.task("elsewhere", timeout="10s", retries=3, retry_delay="200ms")
async def elsewhere(ctx: rota.Context) -> None:
    """Finished by a callback; the runner reads in the ledger that it is to make one."""
    note(ctx, "invoke", nonce=(nonce := os.urandom(8).hex()))
    note(ctx, "deferred", nonce=nonce)
    raise rota.Defer


@rota.task("blocking", timeout="30s", retries=0)
async def blocking(ctx: rota.Context, seconds: float = 8.0) -> str:
    """Holds up the loop that runs all coroutines of this worker."""
    note(ctx, "invoke", nonce=(nonce := os.urandom(8).hex()))
    time.sleep(seconds)  # noqa: ASYNC251 the very mistake that must do no harm
    note(ctx, "ok", nonce=nonce)
    return nonce


@rota.task("poison", timeout="30s", retries=3, retry_delay="200ms")
async def poison(ctx: rota.Context) -> None:
    note(ctx, "invoke", nonce=os.urandom(8).hex())
    os.kill(os.getpid(), signal.SIGKILL)


@rota.task("plain")
async def plain(ctx: rota.Context) -> None:
    """Nothing at all, for measuring rates."""
