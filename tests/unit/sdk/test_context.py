import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rota.sdk.context import Context, Facts

FACTS = Facts(
    task_id="7",
    type="email",
    attempt=2,
    retry_count=1,
    metadata={"customer": "x"},
    deadline=100.0,
    callback="http://rota/link",
)


class Said:
    """A channel that remembers."""

    def __init__(self, now: float = 40.0) -> None:
        self.now = now
        self.lines: list[tuple[str, str, Mapping[str, Any]]] = []
        self.steps: list[tuple[float, str]] = []
        self.stopped = False

    def log(self, level: str, message: str, *, fields: Mapping[str, Any]) -> None:
        self.lines.append((level, message, fields))

    def progress(self, fraction: float, message: str) -> None:
        self.steps.append((fraction, message))

    def is_cancelled(self) -> bool:
        return self.stopped

    def monotonic(self) -> float:
        return self.now


def test_a_context_knows_its_attempt() -> None:
    context = Context(FACTS, Said())

    assert (context.task_id, context.type, context.attempt, context.retry_count) == ("7", "email", 2, 1)
    assert context.metadata == {"customer": "x"}
    assert context.deadline == timedelta(seconds=60)
    assert context.callback == "http://rota/link"


def test_past_the_deadline_no_time_is_left() -> None:
    assert Context(FACTS, Said(now=200.0)).deadline == timedelta(0)


def test_lines_carry_their_level_and_fields() -> None:
    said = Said()
    log = Context(FACTS, said).log.bind(order=1)

    log.debug("a")
    log.info("b", to="x")
    log.warning("c", order=2)
    log.error("d")

    assert said.lines == [
        ("debug", "a", {"order": 1}),
        ("info", "b", {"order": 1, "to": "x"}),
        ("warning", "c", {"order": 2}),
        ("error", "d", {"order": 1}),
    ]


def test_an_exception_is_an_error_with_its_traceback() -> None:
    said = Said()
    try:
        json.loads("{")
    except ValueError:
        Context(FACTS, said).log.exception("unreadable", part=3)

    [(level, message, fields)] = said.lines
    assert (level, message, fields["part"]) == ("error", "unreadable", 3)
    assert "JSONDecodeError" in fields["exception"]


async def test_progress_is_said_at_once_and_may_be_awaited() -> None:
    said = Said()
    context = Context(FACTS, said)

    done = context.progress(0.5, "half way")
    assert said.steps == [(0.5, "half way")]
    await done
    await context.progress(7)

    assert said.steps == [(0.5, "half way"), (1.0, "")]


def test_a_context_tells_when_its_task_was_told_to_stop() -> None:
    said = Said()
    context = Context(FACTS, said)
    assert not context.cancelled

    said.stopped = True

    assert context.cancelled
