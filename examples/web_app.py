"""Rota inside a web application: `uvicorn web_app:app`. A request hands the work over and is answered at once.

`docs/guides/embed-in-a-web-app.md` explains it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import rota

SETTINGS = {"store": {"url": "sqlite:///jobs.db"}}


@rota.task("monthly_report", timeout="1m")
async def monthly_report(ctx: rota.Context, month: str) -> dict[str, str]:
    for step in range(1, 4):
        await asyncio.sleep(0.1)  # what takes its time
        await ctx.progress(step / 3, f"step {step} of 3")
    return {"month": month, "total": "1234.50"}


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
    async with rota.Rota(SETTINGS) as jobs:  # starts with the application; at its end what runs is finished
        yield {"jobs": jobs}


async def order(request: Request) -> Response:
    handle = await request.state.jobs.submit("monthly_report", await request.json())
    return JSONResponse({"id": handle.id}, 202, {"Location": f"/reports/{handle.id}"})


async def show(request: Request) -> Response:
    task = await request.state.jobs.get(request.path_params["id"])
    return JSONResponse(
        {
            "status": task.status,
            "progress": task.progress.fraction if task.progress else None,
            "report": task.result.data if task.result else None,
            "error": task.error.message if task.error else None,
        }
    )


async def refuse(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 404 if isinstance(error, rota.NotFoundError) else 422)


app = Starlette(
    routes=[Route("/reports", order, methods=["POST"]), Route("/reports/{id}", show)],
    lifespan=lifespan,
    exception_handlers={rota.InvalidError: refuse, rota.NotFoundError: refuse, ValueError: refuse},  # or no JSON
)
