"""Executors for tests: what an attempt does is a small coroutine, and what was asked of them is written down."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

from rota.application.ports.executor import Job, Reports
from rota.domain.attempt import Attempt, Outcome, Succeeded
from rota.domain.task_config import TaskConfig

Script = Callable[[Job, Reports], Awaitable[Outcome]]


async def succeed(job: Job, reports: Reports) -> Outcome:
    """Done at once."""
    return Succeeded()


async def never_end(job: Job, reports: Reports) -> Outcome:
    """Runs until it is stopped."""
    await asyncio.get_running_loop().create_future()
    return Succeeded()


class Stubborn:
    """Runs on when it is stopped, until it is let go."""

    def __init__(self) -> None:
        self.is_let_go = False

    async def __call__(self, job: Job, reports: Reports) -> Outcome:
        while not self.is_let_go:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1)
        return Succeeded()


class ScriptedExecutor:
    """Runs a script for every attempt, and remembers who ran and who was stopped."""

    def __init__(self, script: Script = succeed) -> None:
        self.script = script
        self.begun: list[Attempt] = []
        self.stopped: list[Attempt] = []
        self.running = 0
        self.most = 0  # that ran at once
        self.is_started = False

    async def start(self) -> None:
        self.is_started = True

    def supports(self, config: TaskConfig) -> bool:
        settings = json.loads(config.executor_config)
        return not list(settings.items())  # raises for what is no object, as careless executors do

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        self.begun.append(job.attempt)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await self.script(job, reports)
        except asyncio.CancelledError:
            self.stopped.append(job.attempt)
            raise
        finally:
            self.running -= 1

    async def close(self) -> None:
        self.is_started = False
