"""What a leader decides about a config that is due: which targets fire, which are skipped and why, and when it is next.

Pure: the config as it was read, the store's time and the state of its last run go in; a `Decision` comes out, and
with the tasks that were made for it a `Firing`, which a store writes while the next fire time is still the one it began
from.

The next fire time is when the next target is due, jitter included. The target itself is the last one that is not later:
jitter never reaches the target after it. A schedule that waits for the end of its runs has no target until then: its
next fire time is when to look next, which is never too late, because a run that goes on at t makes no target before t
and the delay.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from rota.domain.calendar import Calendar
from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId, TenantId
from rota.domain.moving import LONGEST_MOVE
from rota.domain.schedule import LEAST_OCCURRENCES, Occurrence, Overlap, Schedule
from rota.domain.task import FAILED, PENDING, SUCCESS, TIMEOUT, Task, TaskSpec, TaskState, TaskStatus
from rota.domain.task_config import TaskConfig, UnreadableConfig, check_payload
from rota.domain.timetable import Planned, SkipReason, Timetable

SHORTEST_LOOK = timedelta(seconds=1)  # between two looks at a run whose end is waited for
MAX_REASON = 200
_TICK = timedelta(microseconds=1)
_QUEUED = (Overlap.QUEUE_ONE, Overlap.QUEUE_ALL)
_FREE = (Overlap.ALLOW, Overlap.QUEUE_ALL)
_ENDING = (Overlap.CANCEL_RUNNING, Overlap.KILL_RUNNING)

Calendars = Mapping[str, Calendar]  # of one tenant, by name
NO_CALENDARS: Calendars = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LastRun:
    """Where the task stands that a schedule made last; one that is gone has ended some time."""

    is_live: bool = False
    has_begun: bool = False  # and live: it runs, or is tried again
    was_tried: bool = False  # and live: it was begun once, and perhaps given back
    ended_at: datetime | None = None


NEVER_RAN = LastRun()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of the targets that are due, and when to look again; None: the schedule is over."""

    plans: Sequence[Planned] = ()
    next_fire_at: datetime | None
    ends_last_run: bool = False  # the run that goes on makes room
    targets: tuple[datetime, ...] = field(init=False)  # those that fire

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", tuple(plan.target for plan in self.plans if plan.fires))


class Firing(Protocol):
    """A decision about a config with the tasks that were made for it, as a store writes it: all of it, or nothing."""

    @property
    def tenant_id(self) -> TenantId: ...

    @property
    def task_type(self) -> str: ...

    @property
    def revision(self) -> int:
        """Of the config that was read: it takes effect only while that is the current one."""
        ...

    @property
    def seen_at(self) -> datetime:
        """The next fire time that was read: it takes effect only while it is still this one."""
        ...

    @property
    def next_fire_at(self) -> datetime | None: ...

    @property
    def occurrences(self) -> tuple[Occurrence, ...]: ...

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Those of the occurrences, in order."""
        ...

    @property
    def last_run(self) -> TaskId | None: ...

    @property
    def weight(self) -> int:
        """How much there is to write."""
        ...

    def without(self, targets: Collection[datetime]) -> "Firing":
        """The same, but for targets that are noted already."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FullFiring:
    """One with any number of targets, fired or skipped."""

    tenant_id: TenantId
    task_type: str
    revision: int
    seen_at: datetime
    next_fire_at: datetime | None
    occurrences: tuple[Occurrence, ...] = ()
    tasks: tuple[Task, ...] = ()

    def __post_init__(self) -> None:
        if self.next_fire_at is not None and self.next_fire_at <= self.seen_at:
            raise InvalidError("next_fire_at", "must be later than the one before")
        fired = [one.task_id for one in self.occurrences if one.task_id is not None]
        if fired != [task.id for task in self.tasks]:
            raise InvalidError("tasks", "must be those of the occurrences, in order")

    @property
    def weight(self) -> int:
        return max(len(self.occurrences), 1)

    @property
    def last_run(self) -> TaskId | None:
        return self.tasks[-1].id if self.tasks else None

    def without(self, targets: Collection[datetime]) -> "FullFiring":
        left = tuple(one for one in self.occurrences if one.fire_at not in targets)
        ids = {one.task_id for one in left}
        return replace(self, occurrences=left, tasks=tuple(task for task in self.tasks if task.id in ids))


class Run(Struct, frozen=True):
    """What nearly all firings are: one target that fires, and a task that says what the config does.

    Its occurrence and its task follow from the config and an id, and are made when somebody asks for them: a store
    that writes them as rows need not."""

    config: TaskConfig
    target: datetime
    next_fire_at: datetime | None
    task_id: TaskId
    now: datetime  # when the task was created

    weight = 1

    @property
    def tenant_id(self) -> TenantId:
        return self.config.tenant_id

    @property
    def task_type(self) -> str:
        return self.config.type

    @property
    def revision(self) -> int:
        return self.config.revision

    @property
    def seen_at(self) -> datetime:
        return due_of(self.config)

    @property
    def occurrences(self) -> tuple[Occurrence, ...]:
        config = self.config
        return (
            Occurrence(task_type=config.type, fire_at=self.target, tenant_id=config.tenant_id, task_id=self.task_id),
        )

    @property
    def tasks(self) -> tuple[Task, ...]:
        return (task_for(self.config, self.target, task_id=self.task_id, now=self.now),)

    @property
    def last_run(self) -> TaskId:
        return self.task_id

    def without(self, targets: Collection[datetime]) -> Firing:
        return self if self.target not in targets else full_firing(self.config, self.next_fire_at)


def already_in(firing: Firing, known: Mapping[datetime, Occurrence]) -> list[Occurrence]:
    """What is noted of it in these words: it was written before, or says just what another one did."""
    return [one for one in firing.occurrences if known.get(one.fire_at) == one]


def check_one_firing_each(firings: Sequence[Firing]) -> None:
    """A batch may hold one firing of a config: the second could only be judged after the first is written."""
    if len({(firing.tenant_id, firing.task_type) for firing in firings}) != len(firings):
        raise InvalidError("firings", "a config has more than one in this batch; write them one after the other")


def check_schedule(config: TaskConfig, calendars: Calendars = NO_CALENDARS) -> None:
    """Raise `InvalidError` for what cannot be fired as it is meant."""
    schedule = config.schedule
    if schedule is None:
        return
    Timetable(schedule, seed=config.type, calendars=calendars)  # its calendars must be there
    if schedule.overlap in _QUEUED and config.max_concurrent != 1:
        problem = f"{schedule.overlap} needs max_concurrent 1, by which runs wait for each other"
        raise InvalidError("schedule.overlap", problem)
    if schedule.payload is not None:
        try:
            check_payload(schedule.payload, executor_type=config.executor_type)
        except InvalidError as exc:
            raise InvalidError("schedule.payload", exc.problem) from exc


def first_fire_at(
    config: TaskConfig, now: datetime, *, calendars: Calendars = NO_CALENDARS, current: TaskConfig | None = None
) -> datetime | None:
    """When a config that is put at this moment, perhaps in place of another one, fires for the first time."""
    schedule = config.schedule
    if schedule is None:
        return None
    after = now
    if schedule.at and (current is None or not config.has_targets_of(current)):
        # An instant that has passed while it was on its way is meant all the same, while it is known whether it fired.
        after = now - min(schedule.missed_grace, LEAST_OCCURRENCES)
    return due_after(Timetable(schedule, seed=config.type, calendars=calendars), after)


def decide(config: TaskConfig, now: datetime, *, last: LastRun, calendars: Calendars = NO_CALENDARS) -> Decision:
    """What to do about a config whose next fire time has come by now."""
    schedule, seen_at = _due(config)
    table = Timetable(schedule, seed=config.type, calendars=calendars)
    if schedule.after_end is not None:
        return _decide_after_end(table, config, now=now, last=last)
    before = target_at(table, config, seen_at=seen_at) - _TICK
    plans = table.plan_fires(before, now, runs=config.runs)
    if not plans:  # it has run as often as it may, or its times are others now, of which one may wait for its jitter
        return Decision(next_fire_at=None if _is_over(schedule, config.runs) else due_after(table, before))
    decided = _without_overlaps(plans, schedule.overlap, last=last)
    fires = sum(plan.fires for plan in decided)
    next_fire_at = due_after(table, plans[-1].target)
    return Decision(
        plans=decided,
        next_fire_at=None if _is_over(schedule, config.runs + fires) else next_fire_at,
        ends_last_run=bool(fires) and last.is_live and schedule.overlap in _ENDING,
    )


def can_be_decided_ahead(config: TaskConfig, *, has_live_run: bool, used_within: timedelta) -> bool:
    """Whether what is to become of its next target is certain before it is due, unless the config changes, and stays so
    for a while after: nothing else that it depends on may change meanwhile."""
    schedule = config.schedule
    return (
        schedule is not None
        and schedule.after_end is None
        and not schedule.calendars
        and schedule.pause_after_failures is None
        and schedule.missed_grace >= used_within
        and (not has_live_run or schedule.overlap in _FREE)
    )


def skip_passed(
    config: TaskConfig, now: datetime, *, is_replaced: bool = False, calendars: Calendars = NO_CALENDARS
) -> Firing | None:
    """What was due while the config was disabled, or its schedule paused, skipped as one range; None: nothing was.

    If it is replaced by one with other targets, the range has all that have passed, those too that wait for their
    jitter, whatever its state."""
    schedule, seen_at = config.schedule, config.next_fire_at
    if schedule is None or seen_at is None:
        return None
    if schedule.after_end is None and is_replaced:
        return _skip_replaced(config, now, calendars=calendars)
    if seen_at > now or (is_replaced and config.can_fire):  # what waits for the end of a run misses nothing
        return None
    paused = replace(config, schedule=replace(schedule, is_paused=True))
    decision = decide(paused, now, last=LastRun(), calendars=calendars)
    return firing_of(config, decision, task_ids=(), now=now)


def _skip_replaced(config: TaskConfig, now: datetime, *, calendars: Calendars) -> Firing | None:
    schedule, seen_at = _due(config)
    table = Timetable(schedule, seed=config.type, calendars=calendars)
    first, last = target_at(table, config, seen_at=seen_at), table.previous(now + _TICK)
    if last is None or last < first:
        return None
    reason = SkipReason.REPLACED if config.can_fire else SkipReason.PAUSED
    plan = Planned(target=last, due_at=last, reason=reason, since=first)
    return firing_of(config, Decision(plans=[plan], next_fire_at=due_after(table, last)), task_ids=(), now=now)


def firing_of(config: TaskConfig, decision: Decision, *, task_ids: Sequence[TaskId], now: datetime) -> Firing:
    """The decision with a task for each target that fires, in order. `InvalidError` when the config can make none."""
    if config.schedule is not None and config.schedule.payload is not None and task_ids:
        check_payload(config.schedule.payload, executor_type=config.executor_type)
    if len(task_ids) == len(decision.plans) == 1:
        return Run(config, decision.targets[0], decision.next_fire_at, task_ids[0], now)
    made = iter(task_ids)
    occurrences = tuple(
        Occurrence(
            task_type=config.type,
            tenant_id=config.tenant_id,
            fire_at=plan.target,
            task_id=next(made) if plan.fires else None,
            reason=_reason(plan, config.last_run, made=task_ids[-1] if task_ids else None),
            since=plan.since,
        )
        for plan in decision.plans
    )
    pairs = zip(decision.targets, task_ids, strict=True)
    tasks = tuple(task_for(config, target, task_id=task_id, now=now) for target, task_id in pairs)
    return replace(full_firing(config, decision.next_fire_at), occurrences=occurrences, tasks=tasks)


def task_for(config: TaskConfig, target: datetime, *, task_id: TaskId, now: datetime) -> Task:
    """The task of one target."""
    payload, priority = given_to(config)
    spec = TaskSpec(
        id=task_id,
        tenant_id=config.tenant_id,
        type=config.type,
        payload=payload,
        created_at=now,
        scheduled_at=target,
        timeout=config.timeout,
        retry=config.retry,
    )
    state = TaskState(id=task_id, tenant_id=config.tenant_id, status=PENDING, due_at=target, priority=priority)
    return Task(spec=spec, state=state)


def given_to(config: TaskConfig) -> tuple[str, int]:
    """Payload and priority of the tasks that a config's schedule makes."""
    schedule = schedule_of(config)
    payload = config.payload if schedule.payload is None else schedule.payload
    return payload, config.priority if schedule.priority is None else schedule.priority


def full_firing(config: TaskConfig | UnreadableConfig, next_fire_at: datetime | None) -> FullFiring:
    """A firing that moves a config on and notes nothing."""
    return FullFiring(
        tenant_id=config.tenant_id,
        task_type=config.type,
        revision=config.revision,
        seen_at=due_of(config),
        next_fire_at=next_fire_at,
    )


def count_failures(statuses: Iterable[TaskStatus]) -> int:
    """How many of the runs, newest first, failed in a row. What goes on or was cancelled says nothing."""
    telling = (status for status in statuses if status in (SUCCESS, FAILED, TIMEOUT))
    return sum(1 for _ in takewhile(lambda status: status is not SUCCESS, telling))


def _reason(plan: Planned, last_run: TaskId | None, *, made: TaskId | None) -> str:
    # Not by the decision: it is shared by configs whose last runs stand alike.
    detail = plan.detail
    if plan.reason is SkipReason.OVERLAP and detail:
        detail = f"task {last_run} {detail}"
    elif plan.reason is SkipReason.OVERLAP and made is not None:  # nothing ran: both were due when they were looked at
        detail = f"task {made} runs for both"
    return f"{plan.reason or ''}: {detail}"[:MAX_REASON] if detail else plan.reason or ""


def target_at(table: Timetable, config: TaskConfig, *, seen_at: datetime) -> datetime:
    """The target that a next fire time stands for: itself, or with jitter the one before it.

    If neither is due then, the targets are others now. Where calendars move them, what the time stood for may be
    earlier: but no earlier than the config is there, nor than a calendar can move it. So the run of a day that was
    moved and is not any more is not lost, and a day that is moved from now on does not bring back the one before it.
    Else the rules of a zone have changed, and the time stands for the nearest target: one that is earlier by now is not
    lost, and one that is later does not bring back the one before it."""
    # Without jitter the next fire time is the target, and what was asked about it is asked again.
    following = table.next(seen_at - _TICK)
    before = None if following == seen_at else table.previous(seen_at + _TICK)
    if before is None or table.due_at(before) == seen_at:
        return before or seen_at
    if not table.schedule.moves:
        reach = table.schedule.jitter + ((following or seen_at) - seen_at)
        return before if before >= seen_at - reach else seen_at
    earliest = max(config.created_at or seen_at - LONGEST_MOVE, seen_at - LONGEST_MOVE)
    return before if before >= earliest else seen_at


def due_of(config: TaskConfig | UnreadableConfig) -> datetime:
    """The next fire time of a config that has one."""
    if config.next_fire_at is None:
        raise InvalidError("schedule", f"{config.type!r} has none, or it is over")
    return config.next_fire_at


def schedule_of(config: TaskConfig) -> Schedule:
    """The schedule of a config that has one."""
    if config.schedule is None:
        raise InvalidError("schedule", f"{config.type!r} has none, or it is over")
    return config.schedule


def _due(config: TaskConfig) -> tuple[Schedule, datetime]:
    return schedule_of(config), due_of(config)


def due_after(table: Timetable, after: datetime) -> datetime | None:
    target = table.next(after)
    return None if target is None else table.due_at(target)


def looks_back(schedule: Schedule | None) -> bool:
    """Whether what becomes of its targets depends on the last run."""
    return schedule is not None and (schedule.after_end is not None or schedule.overlap not in _FREE)


def _is_over(schedule: Schedule, runs: int) -> bool:
    return schedule.max_runs is not None and runs >= schedule.max_runs


def _without_overlaps(plans: Sequence[Planned], overlap: Overlap, *, last: LastRun) -> list[Planned]:
    """The plans, with those skipped that would run beside another one."""
    if overlap in _ENDING:  # the newest would end the others at once
        newest = max((plan.target for plan in plans if plan.fires), default=None)
        return [replace(one, reason=SkipReason.OVERLAP) if one.fires and one.target != newest else one for one in plans]
    decided, room = [], _room(overlap, last, most=len(plans))
    detail = "" if room else _tell_standing(last)
    for plan in plans:
        if plan.fires and room == 0:
            decided.append(replace(plan, reason=SkipReason.OVERLAP, detail=detail))
            continue
        room -= plan.fires
        decided.append(plan)
    return decided


def _room(overlap: Overlap, last: LastRun, *, most: int) -> int:
    """How many new runs there is room for."""
    if overlap is Overlap.SKIP:
        return 0 if last.is_live else 1
    if overlap is Overlap.QUEUE_ONE:  # one that runs and one that waits
        return 2 - last.is_live - (last.is_live and not last.has_begun)
    return most


def _tell_standing(last: LastRun) -> str:
    """Of a live one that is in the way."""
    if last.has_begun:
        return "goes on"
    return "waits to be tried again" if last.was_tried else "never began"


def _decide_after_end(table: Timetable, config: TaskConfig, *, now: datetime, last: LastRun) -> Decision:
    schedule, seen_at = _due(config)
    look_at = now + max(schedule.after_end or SHORTEST_LOOK, SHORTEST_LOOK)
    if last.is_live:
        return Decision(next_fire_at=look_at)
    if last.ended_at is not None:
        due_at = due_after(table, last.ended_at)
        if due_at is None or due_at > now:
            return Decision(next_fire_at=due_at)
    if _is_over(schedule, config.runs) or (schedule.end_at is not None and seen_at >= schedule.end_at):
        return Decision(next_fire_at=None)
    plan = Planned(target=seen_at, due_at=seen_at)
    plan = replace(plan, reason=SkipReason.PAUSED) if schedule.is_paused else table.judge(plan)
    is_last = plan.fires and _is_over(schedule, config.runs + 1)
    return Decision(plans=[plan], next_fire_at=None if is_last else look_at)
