"""Deciding about schedules before they are due, so that at the moment they are nothing is left but to write.

Of what a decision depends on only three things can change until then: the config, its calendars, and whether the last
run goes on. A firing takes effect while the config's revision is the one that was read; the other two are left alone
here: such schedules are decided upon when they are due, like all that is new, late or unreadable. A decision that was
not used soon after its time is forgotten; then the config is found among what is due.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rota.application.node import Node
from rota.application.ports.store import FireKey, fire_key_of
from rota.domain.decisions import Decisions
from rota.domain.firing import NEVER_RAN, Decision, can_be_decided_ahead, due_of, looks_back
from rota.domain.task_config import TaskConfig

AHEAD = timedelta(seconds=10)
USED_WITHIN = timedelta(seconds=5)  # after it was due; later another decision may be right
MOST_AHEAD = 100_000  # some 70 MB
PAGE = 500  # configs that are read in one go: some 10 ms, in which the loop does nothing else

Decided = tuple[TaskConfig, Decision]


@dataclass(slots=True)
class LookAhead:
    """What was decided upon and is not due yet. One for a process; emptied when a reign begins."""

    node: Node
    _decided: deque[Decided] = field(default_factory=deque)  # the soonest first
    _last: FireKey | None = None  # up to here all have been looked at

    def clear(self) -> None:
        self._decided.clear()
        self._last = None

    def has_due(self) -> bool:
        """By the store's clock, of which this node's estimate is never ahead."""
        return bool(self._decided) and due_of(self._decided[0][0]) <= self.node.time.now()

    def take_due(self) -> Iterator[Decided]:
        """Those that are due, but for what nobody asked for in time. Each is taken out when it is asked for: the first
        ones are written while the others are still here."""
        now = self.node.time.now()  # once: a look takes longer than taking one out
        while self._decided and due_of(self._decided[0][0]) <= now:
            one = self._decided.popleft()
            if due_of(one[0]) >= now - USED_WITHIN:
                yield one

    async def __call__(self, next_at: datetime | None) -> None:
        """Decide upon what comes, until the next one is due."""
        until = self.node.time.now() + AHEAD
        if next_at is None or next_at > until:
            return
        while len(self._decided) < MOST_AHEAD and self.node.time.now() < next_at:
            page = await self.node.store.schedules.list_due(PAGE, by=until, after=self._last)
            await self._decide([one for one in page if isinstance(one, TaskConfig)])
            if page:
                self._last = fire_key_of(page[-1])
            if len(page) < PAGE:
                break

    async def _decide(self, configs: Sequence[TaskConfig]) -> None:
        decisions = Decisions(None)
        asked = [one.last_run for one in configs if one.last_run is not None and looks_back(one.schedule)]
        live = {one.id for one in await self.node.store.tasks.find_live(asked)}
        for config in configs:
            if can_be_decided_ahead(config, has_live_run=config.last_run in live, used_within=USED_WITHIN):
                self._decided.append((config, decisions.about(config, NEVER_RAN)))
