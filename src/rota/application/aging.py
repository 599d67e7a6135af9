"""How long the head of each level of the queue has waited, as far as this leader saw it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from rota.application.ports.system import Clock
from rota.domain.ids import TaskId
from rota.domain.priority import MOST_PRESSING_FIRST, effective, follow_heads, serving_order


class Heads:
    """The oldest entry of each level, and since when it is that. One that is served makes room for a younger head."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[int, tuple[TaskId, float]] = {}

    def note(self, heads: Mapping[int, TaskId]) -> None:
        """What a take left behind."""
        self._seen = follow_heads(self._seen, heads, now=self._clock.monotonic())

    def order(self, above: float) -> Sequence[int]:
        """The levels to take from, most pressing first; only those that are more pressing than `above`."""
        if not self._seen and above == float("-inf"):  # an idle leader asks so for each task
            return MOST_PRESSING_FIRST
        now = self._clock.monotonic()
        waited = {level: timedelta(seconds=now - since) for level, (_, since) in self._seen.items()}
        return [level for level in serving_order(waited) if effective(level, waited.get(level, timedelta(0))) > above]
