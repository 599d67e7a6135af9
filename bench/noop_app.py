"""The task that benchmarks run: it does nothing, with a payload of about a hundred bytes."""

import time

import rota


@rota.task("nothing")
async def nothing(*, to: str = "", subject: str = "", body: str = "") -> None:
    pass


@rota.task("moment")
async def moment() -> dict[str, float]:
    return {"at": time.time()}
