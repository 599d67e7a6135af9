"""Tasks to look at: what `rota dev` runs when it is given no file of its own.

A worker of any installation has them by `--app rota.sdk.samples`; `rota bench` needs one that runs `sample_noop`."""

import asyncio
import os

from rota.sdk.context import Context
from rota.sdk.tasks import task


@task("sample_hello")
async def hello(ctx: Context, name: str = "world") -> str:
    """The shortest one."""
    ctx.log.info("greeting", name=name)
    return f"Hello, {name}!"


@task("sample_flaky", retries=3, retry_delay="1s")
async def flaky(ctx: Context, failures: int = 2) -> str:
    """Fails, is tried again after growing pauses, and succeeds."""
    if ctx.attempt <= failures:
        raise ConnectionError(f"the other side does not answer (attempt {ctx.attempt})")
    return f"answered at attempt {ctx.attempt}"


@task("sample_noop", retries=0)
async def noop(ctx: Context, filler: str = "") -> None:
    """Does nothing: what `rota bench` submits by the thousand."""


@task("sample_slow", timeout="5m")
async def slow(ctx: Context, steps: int = 20) -> str:
    """Takes its time and says how far it got; try cancelling it."""
    for step in range(1, steps + 1):
        await asyncio.sleep(0.5)  # noqa: TID251 as in the tasks of users
        await ctx.progress(step / steps, f"step {step} of {steps}")
    return f"{steps} steps"


@task("sample_primes", timeout="1m")
def primes(ctx: Context, below: int = 200_000) -> dict[str, int]:
    """Uses a core, in a process of its own: nothing else is held up."""
    ctx.log.info("counting", below=below)
    sieve = bytearray([1]) * below
    sieve[:2] = bytes(min(below, 2))
    for number in range(2, int(below**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, below, number)))
    return {"primes": sum(sieve), "below": below, "process": os.getpid()}
