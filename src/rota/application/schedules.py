"""Looking at schedules: when they fire, and what became of their targets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from rota.application.calendars import calendars_of
from rota.application.node import Node
from rota.domain.checks import check_instant, check_number
from rota.domain.cron.clock_changes import ClockEffect
from rota.domain.cron.words import Language
from rota.domain.declaration import find_missing_calendars
from rota.domain.errors import NotFoundError
from rota.domain.ids import TenantId
from rota.domain.paging import MAX_PAGE
from rota.domain.schedule import Occurrence, Schedule
from rota.domain.schedule_words import describe_schedule
from rota.domain.task_config import TaskConfig
from rota.domain.timetable import MOST_PREVIEWED, Planned, SkipReason, Timetable


class EffectKind(StrEnum):
    SKIPPED = "skipped"
    MOVED = "moved"
    UNKNOWN = "unknown"  # a calendar does not know that year: the target would be skipped as an error


class ScheduleState(StrEnum):
    """Whether what is to come will fire."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"  # its type takes no tasks
    ENDED = "ended"  # it has no time left, or has run as often as it may


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What calendars, or clocks that are changed, make of a target."""

    fire_at: datetime  # of times that the clocks skip: when they go forward
    kind: EffectKind | ClockEffect
    detail: str = ""  # which calendar, or which times the clocks skip
    moved_from: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """When a schedule fires, before and after a moment."""

    type: str
    schedule: Schedule
    in_english: str
    in_chinese: str
    upcoming: Sequence[datetime]
    recent: Sequence[datetime]
    effects: Sequence[Effect] = ()  # on any of these, and on times between them
    next_fire_at: datetime | None = None
    runs: int = 0
    state: ScheduleState = ScheduleState.ACTIVE


@dataclass(frozen=True, slots=True)
class LookAtSchedules:
    node: Node

    async def preview(
        self, tenant_id: TenantId, task_type: str, *, count: int, after: datetime | None = None
    ) -> Preview:
        """When the schedule of a type fires, around now or another moment; `NotFoundError` when there is none."""
        config = await self._get(tenant_id, task_type)
        if config.schedule is None:
            raise _absent(config)
        made = await self.preview_unsaved(
            config.schedule, (tenant_id, task_type), count=count, after=after, runs=config.runs
        )
        next_fire_at = config.next_fire_at if config.can_fire else None
        is_shown = config.next_fire_at is not None or after is not None
        upcoming = made.upcoming if is_shown else ()
        return replace(made, upcoming=upcoming, next_fire_at=next_fire_at, state=_state(config))

    async def preview_unsaved(
        self,
        schedule: Schedule,
        key: tuple[TenantId, str],
        *,
        count: int,
        after: datetime | None = None,
        runs: int = 0,
    ) -> Preview:
        """The same for any schedule that has fired so often; `H` and the jitter are derived from the key's type."""
        check_number("count", count, least=1, most=MOST_PREVIEWED)
        tenant_id, task_type = key
        calendars = await calendars_of(self.node.store.calendars, tenant_id, schedule=schedule)
        table, now = Timetable(schedule, seed=task_type, calendars=calendars), self.node.time.now()
        since = now if after is None else check_instant("after", after)
        upcoming = table.until_over(table.upcoming(since, count=count), runs=runs)
        recent = table.recent(since, count=count)
        going = ScheduleState.PAUSED if schedule.is_paused else ScheduleState.ACTIVE
        return Preview(
            type=task_type,
            schedule=schedule,
            in_english=describe_schedule(schedule, Language.ENGLISH, seed=task_type),
            in_chinese=describe_schedule(schedule, Language.CHINESE, seed=task_type),
            upcoming=upcoming,
            recent=recent,
            runs=runs,
            effects=_list_effects(table, [*recent[::-1], *upcoming]),
            state=going if table.next(now) is not None else ScheduleState.ENDED,
        )

    async def list_occurrences(self, tenant_id: TenantId, task_type: str, *, limit: int) -> Sequence[Occurrence]:
        """What became of the targets of a type, newest first."""
        check_number("limit", limit, least=1, most=MAX_PAGE)
        await self._get(tenant_id, task_type)
        return await self.node.store.schedules.list_occurrences(tenant_id, task_type, limit=limit)

    async def _get(self, tenant_id: TenantId, task_type: str) -> TaskConfig:
        config = await self.node.store.configs.find(tenant_id, task_type)
        if config is None:
            raise NotFoundError("task config", task_type)
        return config


def _absent(config: TaskConfig) -> NotFoundError:
    error = NotFoundError("schedule", config.type)
    if missing := find_missing_calendars(config):
        problem = f"the schedule that the code gives {config.type} was left out: there was no calendar"
        way = f"rota calendar put {missing[0]}, then start again what has that code"
        error.args = (f"{problem} {', '.join(missing)}; {way}",)
    return error


def _state(config: TaskConfig) -> ScheduleState:
    if not config.is_enabled:
        return ScheduleState.DISABLED
    if not config.can_fire:
        return ScheduleState.PAUSED
    return ScheduleState.ENDED if config.next_fire_at is None else ScheduleState.ACTIVE


def _list_effects(table: Timetable, targets: Sequence[datetime]) -> list[Effect]:
    """What becomes of these targets, and of what is named between them, in order."""
    if not targets:
        return []
    found = {target: _effect(table, target) for target in targets} if table.schedule.calendars else {}
    effects = [effect for effect in found.values() if effect is not None]
    untouched = {target for target in targets if found.get(target) is None}
    effects += [
        Effect(fire_at=one.at, kind=one.effect, detail=one.times)
        for one in table.clock_changes(targets[0], end=targets[-1])
        if one.at in untouched or one.effect is ClockEffect.SKIPPED
    ]
    return sorted(effects, key=lambda effect: effect.fire_at)


def _effect(table: Timetable, target: datetime) -> Effect | None:
    judged = table.judge(Planned(target=target, due_at=target))
    if not judged.fires:
        kind = EffectKind.UNKNOWN if judged.reason is SkipReason.ERROR else EffectKind.SKIPPED
        return Effect(fire_at=target, kind=kind, detail=judged.detail)
    origin = table.moved_from(target)
    if origin is None:
        return None
    return Effect(fire_at=target, kind=EffectKind.MOVED, detail=table.objection(origin), moved_from=origin)
