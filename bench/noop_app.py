"""The task that benchmarks run: it does nothing, with a payload of about a hundred bytes."""

import time

import rota


@rota.task("noop")
async def noop(*, to: str = "", subject: str = "", body: str = "") -> None:
    pass


@rota.task("stamp")
async def stamp() -> dict[str, float]:
    return {"at": time.time()}
