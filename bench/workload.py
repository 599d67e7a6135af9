"""The work that is measured: tasks added, granted to three workers, and ended, in batches of 500."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TypeVar

from rota.domain.attempt import TaskResult
from rota.domain.ids import TaskId, WorkerId, next_id
from rota.domain.submission import NewTask, Submission, compose
from rota.domain.task import Transition
from rota.domain.task_config import TaskConfig

BATCH = 500
WORKERS = 3
PAYLOAD = {"to": "someone@example.com", "subject": "about one hundred bytes", "body": "so that it looks like real work"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workload:
    """The three phases, prepared, so that only the store is timed."""

    adds: list[list[NewTask]]
    grants: list[list[Transition]]
    ends: list[list[Transition]]

    @property
    def tasks(self) -> int:
        return sum(len(batch) for batch in self.adds)


def prepare(tasks: int) -> Workload:
    now = datetime.now(UTC)
    config = TaskConfig(type="send_email")
    wish = Submission(type="send_email", payload=PAYLOAD)
    ids = _ids(now)
    new = [compose(wish, config, task_id=TaskId(next(ids)), now=now) for _ in range(tasks)]
    grants = [
        item.task.state.granted(
            WorkerId(1 + place * WORKERS // BATCH % WORKERS), term=1, at=now, timeout=timedelta(minutes=5)
        )
        for place, item in enumerate(new)
    ]
    ends = [grant.after.succeeded(TaskResult(), at=now + timedelta(seconds=1)) for grant in grants]
    return Workload(_batches(new), _batches(grants), _batches(ends))


def _batches(items: list[T]) -> list[list[T]]:
    return [items[start : start + BATCH] for start in range(0, len(items), BATCH)]


def _ids(now: datetime) -> "count[int]":
    return count(next_id(0, now=now, slot=1) + 1)
