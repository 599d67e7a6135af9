"""The tasks that `docs/guides/writing-tasks.md` explains."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import rota


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    street: str
    city: str


@rota.task("guide.ship", timeout="1m", retries=5, retry_delay="2s", priority="high")
async def ship(ctx: rota.Context, to: Address, *, due: datetime, colour: Colour = Colour.RED) -> dict[str, str]:
    """Keys of the payload are the arguments; their annotations say what the values become."""
    ctx.log.info("shipping", city=to.city)
    await ctx.progress(0.5, "packed")
    return {"city": to.city, "colour": colour, "year": str(due.year)}


@rota.task("guide.resize", timeout="30s", max_concurrent=2)
def resize(ctx: rota.Context, width: int) -> int:
    """A plain function runs in a child process: it may block, use a core, or crash."""
    try:
        ctx.log.info("resizing", width=width)
        return width
    finally:
        ctx.log.info("cleaned up")  # also when the timeout or a cancel stops it


@rota.task("guide.poll", isolation="thread", timeout="30s")
def poll(ctx: rota.Context, times: int) -> int:
    """In a thread nothing can stop it from outside, so it looks by itself."""
    for turn in range(times):
        if ctx.cancelled:
            raise RuntimeError(f"stopped at turn {turn}")  # to return would be to succeed
        time.sleep(0.001)
    return times


@rota.task("guide.charge", retries=3, retry_delay="1s")
async def charge(ctx: rota.Context, card: str, *, state: str) -> str:
    if state == "no such card":
        raise rota.Fail(f"there is no card {card}")  # the end: trying again would not help
    if state == "busy" and ctx.attempt == 1:
        raise rota.Retry("the bank is busy", after="30s")  # spends a retry, with a pause of its own
    if state == "closed" and ctx.attempt == 1:
        raise rota.Snooze("5m")  # not now: spends no retry
    if state == "broken":
        raise ConnectionError("no answer")  # any other exception: by the retry policy
    return f"charged {card}, key {ctx.task_id}"  # the same id over all attempts: a good idempotency key


@rota.task("guide.crawl", rate_per_second=5, timeout="5m")
async def crawl(url: str) -> None:
    await asyncio.sleep(0.1)
