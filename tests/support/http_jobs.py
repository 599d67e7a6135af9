"""Jobs for the HTTP executor, and executors that may call this machine."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from rota.application.ports.executor import Job
from rota.domain.attempt import Outcome
from rota.infrastructure.executors.http.executor import HttpExecutor
from rota.infrastructure.executors.http.settings import HttpSettings
from rota.infrastructure.executors.targets import TargetGuard, parse_allow
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.values import replace
from tests.support.builders import a_config, a_running_state, a_task, an_attempt
from tests.support.local_jobs import Recorder

LOOPBACK = (parse_allow("http.allow", "127.0.0.0/8"), parse_allow("http.allow", "localhost"))
LONG = timedelta(seconds=30)
CALLBACK = "https://rota.example.com/api/v1/tasks/1/attempts/1.default.abc"


def an_http_job(url: str, *, within: timedelta = LONG, task: dict[str, Any] | None = None, **executor: Any) -> Job:
    """An attempt to call the URL; `task` are fields of its spec, other keywords the config's."""
    running = a_running_state()
    config = a_config(executor_type="http", executor_config=json.dumps({"url": url, **executor}))
    deadline = SystemClock().monotonic() + within.total_seconds()
    return Job(a_task(state=running, **(task or {})), an_attempt(running), config, deadline, link=lambda _: CALLBACK)


@contextlib.asynccontextmanager
async def an_http_executor(
    settings: HttpSettings | None = None, *, guard: TargetGuard | None = None
) -> AsyncIterator[HttpExecutor]:
    """One that may call loopback, whatever else the settings say."""
    chosen = settings or HttpSettings()
    if not chosen.allow:
        chosen = replace(chosen, allow=LOOPBACK)
    executor = HttpExecutor(SystemClock(), SystemRandom(), settings=chosen, guard=guard)
    await executor.start()
    try:
        yield executor
    finally:
        await executor.close()
        await asyncio.sleep(0)  # aiohttp closes its connections with the next turn of the loop


async def run(executor: HttpExecutor, job: Job) -> Outcome:
    return await executor.execute(job, Recorder())
