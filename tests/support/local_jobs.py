"""Jobs for the local executor, and a recorder of what they report."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rota.application.ports.executor import Job, LogLevel
from rota.infrastructure.system import SystemClock
from tests.support.builders import MINUTE, a_config, a_running_state, a_task, an_attempt

PATIENCE_S = 20


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
