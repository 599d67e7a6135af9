"""Decisions about many configs at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rota.domain.firing import NO_CALENDARS, Calendars, Decision, LastRun, decide, due_of, schedule_of
from rota.domain.ids import TenantId
from rota.domain.schedule import Schedule
from rota.domain.task_config import TaskConfig


@dataclass(frozen=True, slots=True)
class Decisions:
    """What to do about many configs at one moment, or about each at the moment at which it is due. Those of a tenant
    whose schedules say the same share a decision: among a hundred thousand few expressions differ, and deciding takes
    longer than everything else about a fire."""

    now: datetime | None  # None: for each its own next fire time
    calendars: Mapping[TenantId, Calendars] = field(default_factory=dict)
    _made: dict[tuple[TenantId, Schedule, datetime, LastRun], Decision] = field(default_factory=dict)
    _found: dict[tuple[TenantId, int, datetime, LastRun], tuple[Decision, Schedule]] = field(default_factory=dict)

    def about(self, config: TaskConfig, last: LastRun) -> Decision:
        schedule, seen_at = schedule_of(config), due_of(config)
        # Equal ones are mostly one and the same, which is known by its place: comparing all it says takes longer. It is
        # kept with the decision, so that no other can come to be there.
        place = (config.tenant_id, id(schedule), seen_at, last)
        found = self._found.get(place)
        if found is not None:
            return found[0]
        # By its type, its runs so far, or when it was created.
        if schedule.is_spread or schedule.jitter or schedule.max_runs is not None or schedule.moves:
            return self._decide(config, last)
        key = (config.tenant_id, schedule, seen_at, last)
        if key not in self._made:
            self._made[key] = self._decide(config, last)
        self._found[place] = (self._made[key], schedule)
        return self._made[key]

    def _decide(self, config: TaskConfig, last: LastRun) -> Decision:
        now = due_of(config) if self.now is None else self.now
        return decide(config, now, last=last, calendars=self.calendars.get(config.tenant_id, NO_CALENDARS))
