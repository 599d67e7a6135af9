"""When a task config fires, what becomes of targets that were missed or overlap, and the occurrences it leaves behind.

Every target time ends as exactly one occurrence, FIRED or SKIPPED with its reason; nothing is missed in silence. What
follows from a schedule is in `timetable.py`, how it is written in JSON in `schedule_form.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from rota.domain.checks import (
    EARLIEST,
    check_duration,
    check_instant,
    check_json,
    check_name,
    check_number,
    check_text,
    check_zone,
    to_json,
)
from rota.domain.cron.dialect import Dialect
from rota.domain.cron.expression import CronExpression, is_spread, parse_cron
from rota.domain.cron.recurrence import DstGap, DstOverlap, Recurrence, recur
from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId
from rota.domain.priority import NORMAL, URGENT

SHORTEST_PACE = timedelta(seconds=1)
MAX_INSTANTS = 1000
MAX_RUNS = 1_000_000_000
MAX_MISSED = 1000
MAX_CALENDARS = 16
MAX_FAILURES = 100  # in a row: so many runs are looked at before each target
MAX_NOTE = 500
MOST_MOVED_A_DAY = 100
LEAST_OCCURRENCES = timedelta(days=1)  # kept so long at least: a target whose occurrence is gone could fire again
_EXPRESSIONS_KEPT = 4096
_TICK = timedelta(microseconds=1)


class Overlap(StrEnum):
    """What a target does while a run of the same schedule goes on."""

    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    QUEUE_ALL = "queue_all"
    CANCEL_RUNNING = "cancel_running"
    KILL_RUNNING = "kill_running"
    ALLOW = "allow"


class OnMissed(StrEnum):
    """What becomes of targets that nobody fired in time."""

    RUN_ONCE = "run_once"
    RUN_ALL = "run_all"
    SKIP = "skip"


class OnExcluded(StrEnum):
    """What becomes of a target that the calendars exclude."""

    SKIP = "skip"
    RUN_BEFORE = "run_before"
    RUN_AFTER = "run_after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Exactly one of `cron`, `every`, `after_end` and `at` says when; the rest says how."""

    cron: str | None = None
    dialect: Dialect = Dialect.VIXIE
    every: timedelta | None = None  # a fixed pace from start_at, or from 1970-01-01T00:00:00Z
    after_end: timedelta | None = None  # so long after the previous run ended
    at: tuple[datetime, ...] = ()  # once, or a list
    zone: str = "UTC"
    dst_gap: DstGap = DstGap.RUN_AFTER
    dst_overlap: DstOverlap = DstOverlap.FIRST
    start_at: datetime | None = None  # the first moment that may be a target
    end_at: datetime | None = None  # the first moment that may not be one any more
    jitter: timedelta = timedelta(0)
    max_runs: int | None = None
    overlap: Overlap = Overlap.SKIP
    on_missed: OnMissed = OnMissed.RUN_ONCE
    missed_grace: timedelta = timedelta(minutes=1)  # what is no later than this is late, not missed
    missed_limit: int = 100  # targets that are dealt with one by one after an outage
    only: tuple[str, ...] = ()  # calendars: a target must be in all of these
    exclude: tuple[str, ...] = ()  # and in none of these
    on_excluded: OnExcluded = OnExcluded.SKIP
    is_paused: bool = False
    pause_note: str = ""
    pause_after_failures: int | None = None  # in a row
    payload: str | None = None  # JSON text; None: that of the config
    priority: int | None = None  # None: that of the config

    def __post_init__(self) -> None:
        self._check_kind()
        check_zone("schedule.zone", self.zone)
        for name, kind in _CHOICES.items():
            if not isinstance(getattr(self, name), kind):
                raise InvalidError(f"schedule.{name}", f"must be one of {', '.join(kind)}")
        self._check_bounds()
        self._check_calendars()
        check_text("schedule.pause_note", self.pause_note, longest=MAX_NOTE)
        if self.payload is not None:
            # As it is written by us, so that it is equal to itself when it comes back from JSON.
            payload = json.loads(check_json("schedule.payload", self.payload))
            object.__setattr__(self, "payload", to_json("schedule.payload", payload))
        if self.priority is not None:
            check_number("schedule.priority", self.priority, least=NORMAL, most=URGENT)
        if self.cron is not None and self.recurrence().next(EARLIEST - _TICK) is None and not self.is_spread:
            raise InvalidError("schedule.cron", f"never fires in {self.zone}: the clocks skip its only times")

    @property
    def calendars(self) -> frozenset[str]:
        """The names of all calendars that it keeps to or keeps out of."""
        return frozenset((*self.only, *self.exclude))

    @property
    def moves(self) -> bool:
        """Whether its calendars move targets."""
        return self.on_excluded is not OnExcluded.SKIP and bool(self.only or self.exclude)

    @property
    def is_spread(self) -> bool:
        """Whether its times depend on the type of the config."""
        return self.cron is not None and is_spread(self.cron)

    def has_targets_of(self, other: "Schedule") -> bool:
        """Whether both name the same moments, whatever else they say about them."""
        return all(getattr(self, name) == getattr(other, name) for name in _WHEN)

    def recurrence(self, seed: str = "") -> Recurrence:
        """The target times of a cron expression; `seed` is what `H` is spread by."""
        if self.cron is None:
            raise InvalidError("schedule.cron", "is not what this schedule goes by")
        spread_by = seed if self.is_spread else ""  # without it, all configs share what was read once
        return _recurrence((self.cron, self.dialect, spread_by), self.zone, dst=(self.dst_gap, self.dst_overlap))

    def _check_kind(self) -> None:
        paces = {"every_seconds": self.every, "after_end_seconds": self.after_end}
        given = {"cron": self.cron, **paces, "at": self.at or None}
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            found = f"has {' and '.join(named)}" if named else "says not when"
            wanted = "exactly one of cron, every_seconds, after_end_seconds and at"
            raise InvalidError("schedule", f"{found}; give {wanted}")
        if self.every is not None:
            check_duration("schedule.every_seconds", self.every, least=SHORTEST_PACE)
        if self.after_end is not None:
            check_duration("schedule.after_end_seconds", self.after_end)
        if len(self.at) > MAX_INSTANTS:
            raise InvalidError("schedule.at", f"has {len(self.at)} times, at most {MAX_INSTANTS} are allowed")
        for place, at in enumerate(self.at):
            check_instant(f"schedule.at[{place}]", at)
        if list(self.at) != sorted(set(self.at)):
            raise InvalidError("schedule.at", "must be in order, each time once")

    def _check_bounds(self) -> None:
        for name, at in (("start_at", self.start_at), ("end_at", self.end_at)):
            if at is not None:
                check_instant(f"schedule.{name}", at)
        if self.start_at is not None and self.end_at is not None and self.start_at >= self.end_at:
            raise InvalidError("schedule.end_at", "must be later than start_at")
        check_duration("schedule.jitter_seconds", self.jitter)
        check_duration("schedule.missed_grace_seconds", self.missed_grace)
        check_number("schedule.missed_limit", self.missed_limit, least=1, most=MAX_MISSED)
        if self.max_runs is not None:
            check_number("schedule.max_runs", self.max_runs, least=1, most=MAX_RUNS)
        if self.pause_after_failures is not None:
            check_number("schedule.pause_after_failures", self.pause_after_failures, least=1, most=MAX_FAILURES)

    def _check_calendars(self) -> None:
        for name, calendars in (("only", self.only), ("exclude", self.exclude)):
            if len(calendars) > MAX_CALENDARS:
                raise InvalidError(f"schedule.{name}", f"names more than {MAX_CALENDARS} calendars")
            for place, calendar in enumerate(calendars):
                check_name(f"schedule.{name}[{place}]", calendar)
        if self.on_excluded is not OnExcluded.SKIP and not self._names_times():
            problem = (
                f"moves a run to another day, so that it needs cron or at with {MOST_MOVED_A_DAY} times a day at most"
            )
            raise InvalidError("schedule.on_excluded", f"{self.on_excluded} {problem}")

    def _names_times(self) -> bool:
        if self.cron is None:
            return bool(self.at)
        expression = parse_cron(self.cron, dialect=self.dialect)
        return isinstance(expression, CronExpression) and expression.fields.times_a_day <= MOST_MOVED_A_DAY


_WHEN = (
    *("cron", "dialect", "every", "after_end", "at", "zone", "dst_gap", "dst_overlap"),
    *("start_at", "end_at", "jitter", "only", "exclude", "on_excluded"),
)
_CHOICES: Mapping[str, type[StrEnum]] = {
    "dialect": Dialect,
    "dst_gap": DstGap,
    "dst_overlap": DstOverlap,
    "overlap": Overlap,
    "on_missed": OnMissed,
    "on_excluded": OnExcluded,
}


@lru_cache(maxsize=_EXPRESSIONS_KEPT)
def _recurrence(written: tuple[str, Dialect, str], zone: str, *, dst: tuple[DstGap, DstOverlap]) -> Recurrence:
    cron, dialect, seed = written
    gap, overlap = dst
    return recur(parse_cron(cron, dialect=dialect, seed=seed), zone=zone, gap=gap, overlap=overlap)


class OccurrenceStatus(StrEnum):
    FIRED = "FIRED"
    SKIPPED = "SKIPPED"


class Occurrence(Struct, frozen=True, kw_only=True):
    """One target time of a schedule and what became of it."""

    task_type: str
    fire_at: datetime
    tenant_id: TenantId = DEFAULT_TENANT
    task_id: TaskId | None = None  # None: skipped
    reason: str = ""  # why it was skipped
    since: datetime | None = None  # it stands for all targets from here to fire_at

    def __post_init__(self) -> None:
        if self.task_id is None and not self.reason:
            raise InvalidError("reason", "must say why the target time was skipped")

    @property
    def status(self) -> OccurrenceStatus:
        return OccurrenceStatus.SKIPPED if self.task_id is None else OccurrenceStatus.FIRED
