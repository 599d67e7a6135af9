"""Jobs for the local executor, and a recorder of what they report."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from rota.application.ports.executor import Job, LogLevel
from rota.application.ports.metrics import Metric, MetricsCollector, NoMetrics
from rota.domain.attempt import Failed, Outcome, Succeeded
from rota.infrastructure.executors.local.executor import LocalExecutor
from rota.infrastructure.executors.local.settings import LocalSettings
from rota.infrastructure.system import SystemClock
from rota.sdk.app import AppRef
from tests.support.builders import MINUTE, a_config, a_running_state, a_task, an_attempt
from tests.support.local_app import RELEASE

PATIENCE_S = 20
APP = AppRef("tests.support.local_app")
LONG = timedelta(seconds=20)  # within this, a busy machine gets everything done
PATIENT = LocalSettings(grace=LONG, async_grace=LONG)

Start = Callable[[LocalSettings], Awaitable[LocalExecutor]]


class CountingMetrics(NoMetrics):
    def __init__(self) -> None:
        self.counted: list[tuple[Metric, tuple[str, ...]]] = []

    def add(self, counter: Metric, *labels: str, amount: float = 1) -> None:
        self.counted.append((counter, labels))


@contextlib.asynccontextmanager
async def local_executors(collector: MetricsCollector) -> AsyncIterator[Start]:
    """Starts executors; afterwards, everything that blocks is released and everything closed."""
    RELEASE.clear()
    async with contextlib.AsyncExitStack() as stack:

        async def start_one(settings: LocalSettings) -> LocalExecutor:
            executor = LocalExecutor(SystemClock(), collector, app=APP, settings=settings)
            stack.push_async_callback(executor.close)
            stack.callback(RELEASE.set)
            await executor.start()
            return executor

        yield start_one


def data_of(outcome: Outcome) -> str | None:
    assert isinstance(outcome, Succeeded), outcome
    return outcome.result.data


def code_of(outcome: Outcome) -> str:
    assert isinstance(outcome, Failed), outcome
    return outcome.error.code


class Recorder:
    """Reports that can be waited for."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, LogLevel, str]] = []
        self.steps: list[tuple[float, str]] = []
        self._changed = asyncio.Event()

    def log(self, message: str, *, level: LogLevel = LogLevel.INFO, detail: str = "") -> None:
        self.lines.append((message, level, detail))
        self._changed.set()

    def progress(self, fraction: float, message: str = "") -> None:
        self.steps.append((fraction, message))

    def messages(self) -> list[str]:
        return [message for message, _, _ in self.lines]

    async def wait_for(self, message: str) -> dict[str, Any]:
        """The fields of the first line with this message, as soon as there is one."""
        async with asyncio.timeout(PATIENCE_S):
            while message not in self.messages():
                self._changed.clear()
                await self._changed.wait()
        detail = next(detail for text, _, detail in self.lines if text == message)
        return dict(json.loads(detail or "{}"))


def a_job(task_type: str, payload: dict[str, Any] | None = None, **config: Any) -> Job:
    state = a_running_state()
    task = a_task(state=state, type=task_type, payload=json.dumps(payload or {}), metadata={"customer": "7"})
    deadline = SystemClock().monotonic() + MINUTE.total_seconds()
    return Job(task, an_attempt(state), a_config(task_type, **config), deadline)


def is_running(pid: int) -> bool:
    """Whether a process lives; a zombie that nobody reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that only the system can tell."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - the kernel sets no event of ours
            await asyncio.sleep(0.005)
