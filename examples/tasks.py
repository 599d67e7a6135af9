"""A few tasks to try Rota with: `cd examples && rota server --app tasks.py`, or `make dev`."""

import asyncio
import os

import rota


@rota.task("greet")
async def greet(name: str, times: int = 1) -> str:
    return " ".join([f"Hello, {name}!"] * times)


@rota.task("count_primes", timeout="30s")
def count_primes(ctx: rota.Context, below: int) -> dict[str, int]:
    ctx.log.info("counting", below=below)
    found = sum(all(number % divisor for divisor in range(2, int(number**0.5) + 1)) for number in range(2, below))
    return {"primes": found, "process": os.getpid()}


@rota.task("call_shop", retries=3, retry_delay="300ms")
async def call_shop(ctx: rota.Context, order: int) -> str:
    if ctx.attempt < 3:
        raise ConnectionError(f"the shop is closed (attempt {ctx.attempt})")
    return f"order {order} placed at attempt {ctx.attempt}"


@rota.task("long_nap", timeout="1h")
async def long_nap(ctx: rota.Context, seconds: float = 60) -> None:
    await ctx.progress(0.1, "falling asleep")
    await asyncio.sleep(seconds)
