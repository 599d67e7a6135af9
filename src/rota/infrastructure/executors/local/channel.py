"""The context's way to the control loop for functions that run in this process, on another thread."""

from collections.abc import Mapping
from typing import Any

from rota.application.ports.executor import LogLevel, Reports
from rota.application.ports.system import Clock
from rota.domain.checks import MAX_LINE, MAX_MESSAGE, tidy_text
from rota.infrastructure.executors.local.lines import detail_of
from rota.infrastructure.executors.local.mailbox import Mailbox

Said = tuple[Reports, LogLevel | float, str, str]


def deliver(said: Said) -> None:
    """Give to the worker what a function said. Runs on the control loop."""
    reports, what, text, detail = said
    if isinstance(what, LogLevel):
        reports.log(text, level=what, detail=detail)
    else:
        reports.progress(what, text)


class ThreadChannel:
    """Closed with its attempt, so that a function that was given up on speaks for nobody."""

    def __init__(self, mailbox: Mailbox[Any], reports: Reports, *, clock: Clock) -> None:
        self._mailbox = mailbox
        self._reports = reports
        self._clock = clock
        self._is_open = True
        self.is_stopped = False

    def log(self, level: str, message: str, *, fields: Mapping[str, Any]) -> None:
        if self._is_open:
            text = tidy_text(str(message), longest=MAX_LINE)
            self._mailbox.post((self._reports, LogLevel(level), text, detail_of(fields)))

    def progress(self, fraction: float, message: str) -> None:
        if self._is_open:
            self._mailbox.post((self._reports, fraction, tidy_text(message, longest=MAX_MESSAGE), ""))

    def is_cancelled(self) -> bool:
        return self.is_stopped

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def close(self) -> None:
        self._is_open = False
