"""The context's way to the control loop for functions that run in this process, on another thread.

Nothing holds such a function back, so what it can leave waiting there is bounded here: the text of its lines by what is
kept of them anyway, and of its progress only the last waits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.application import metrics
from rota.application.ports.executor import LogLevel, Reports
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.system import Clock
from rota.domain.checks import MAX_LINE, MAX_MESSAGE, tidy_text
from rota.domain.log import LINE_COST, too_much
from rota.infrastructure.executors.local.lines import detail_of
from rota.infrastructure.executors.local.mailbox import Mailbox

Said = tuple["ThreadChannel", LogLevel | None, str, str]  # without a level: look how far it got


def deliver(said: Said) -> None:
    """Give to the worker what a function said. Runs on the control loop."""
    channel, level, text, detail = said
    if level is None:
        channel.pass_progress()
    else:
        channel.pass_line(text, level=level, detail=detail)


@dataclass(frozen=True, slots=True)
class ChannelSetup:
    """What all channels of an executor have in common."""

    clock: Clock
    collector: MetricsCollector
    log_limit: int  # as the worker bounds an attempt's log; characters here, so that this one never cuts earlier


class ThreadChannel:
    """Closed with its attempt, so that a function that was given up on speaks for nobody."""

    __slots__ = ("_is_open", "_mailbox", "_progress", "_progress_waits", "_reports", "_said", "_setup", "is_stopped")

    def __init__(self, mailbox: Mailbox[Any], reports: Reports, *, setup: ChannelSetup) -> None:
        self._mailbox = mailbox
        self._reports = reports
        self._setup = setup
        self._said = 0  # as the log's bound counts it
        self._progress = (0.0, "")
        self._progress_waits = False
        self._is_open = True
        self.is_stopped = False

    def log(self, level: str, message: str, *, fields: Mapping[str, Any]) -> None:
        if not self._is_open:
            return
        limit, before = self._setup.log_limit, self._said
        if before <= limit:
            text, detail = tidy_text(str(message), longest=MAX_LINE), detail_of(fields)
            self._said += LINE_COST + len(text) + len(detail)
            if self._said <= limit:
                self._mailbox.post((self, LogLevel(level), text, detail))
                return
            self._mailbox.post((self, LogLevel.ERROR, too_much(limit), ""))
        self._setup.collector.add(metrics.LOG_LINES_DROPPED)

    def progress(self, fraction: float, message: str) -> None:
        if not self._is_open:
            return
        self._progress = (fraction, tidy_text(message, longest=MAX_MESSAGE))
        if not self._progress_waits:
            self._progress_waits = True
            self._mailbox.post((self, None, "", ""))

    def pass_line(self, text: str, *, level: LogLevel, detail: str) -> None:
        """On the control loop."""
        if self._is_open:
            self._reports.log(text, level=level, detail=detail)

    def pass_progress(self) -> None:
        """On the control loop."""
        self._progress_waits = False  # first: what is said from here on is posted again
        if self._is_open:
            self._reports.progress(*self._progress)

    def is_cancelled(self) -> bool:
        return self.is_stopped

    def monotonic(self) -> float:
        return self._setup.clock.monotonic()

    def close(self) -> None:
        self._is_open = False
