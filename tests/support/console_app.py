"""Tasks to look at in the console."""

import asyncio

import rota


@rota.task("shop.greet")
async def greet(ctx: rota.Context, name: str = "world") -> dict[str, str]:
    ctx.log.info("greeting", name=name)
    return {"greeting": f"Hello, {name}!"}


@rota.task("shop.charge", retries=0)
async def charge(ctx: rota.Context, order: int) -> None:
    ctx.log.info("charging", order=order)
    raise ValueError(f"order {order} has no card")


@rota.task("shop.sync", retries=3, retry_delay="0.3s")
async def sync(ctx: rota.Context) -> str:
    if ctx.attempt < 3:
        raise ConnectionError(f"the warehouse does not answer (attempt {ctx.attempt})")
    return "in step"


@rota.task("shop.settle")
async def settle(ctx: rota.Context) -> None:
    if ctx.attempt == 1:
        raise rota.Snooze("1s")


@rota.task("shop.export", timeout="30m")
async def export(ctx: rota.Context, rows: int = 100) -> None:
    """Goes on until somebody cancels it."""
    ctx.log.info("\x1b[1;32mopened\x1b[0m the year, \x1b[33m2 sheets are protected\x1b[0m")
    for row in range(rows):
        ctx.log.info("row written", row=row, total=rows)
    await ctx.progress(0.42, "42 of 100 sheets")
    await asyncio.Event().wait()


@rota.task("shop.hostile", retries=0)
async def hostile(ctx: rota.Context, text: str) -> None:
    """What comes in goes to every place that the console shows."""
    ctx.log.info(text[:2000])
    await ctx.progress(0.5, text[:100])
    raise RuntimeError(text)


@rota.task("shop.chatter", retries=0)
def chatter(ctx: rota.Context) -> None:
    """Prints more than is kept."""
    ctx.log.info("counting")
    ctx.log.warning("one shelf is empty")
    ctx.log.error("one shelf is gone")
    for number in range(30_000):
        print(f"line {number}", "of many" * 12)  # noqa: T201 it is what is tried
