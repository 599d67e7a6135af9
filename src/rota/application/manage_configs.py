"""What people do with task configs: look, define, pause, resume, run now, delete."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from rota.application.audit import Actor, record
from rota.application.calendars import calendars_of
from rota.application.node import Node
from rota.application.settle import settle
from rota.application.submit import Created, SubmitTasks
from rota.domain.audit import MAX_ACTOR
from rota.domain.checks import check_number, tidy_text
from rota.domain.declaration import as_put
from rota.domain.ended import check_fires
from rota.domain.errors import ConflictError, InvalidError, NotFoundError, RevisionConflictError
from rota.domain.firing import check_schedule, first_fire_at
from rota.domain.ids import TenantId
from rota.domain.paging import MAX_PAGE
from rota.domain.realigning import aimed_anew
from rota.domain.submission import Submission
from rota.domain.task_config import TaskConfig

ConfigKey = tuple[TenantId, str]
ConfigCheck = Callable[[TaskConfig], None]  # raises `InvalidError` for what the executor could not run
MOST_REVISIONS = 2**31 - 1
MOST_TRIES = 10  # against a config that changes under our hands


def accept(_: TaskConfig) -> None:
    """Every config is fine."""


@dataclass(frozen=True, slots=True)
class ManageConfigs:
    node: Node
    submit: SubmitTasks
    check: ConfigCheck = accept

    async def get(self, tenant_id: TenantId, task_type: str) -> TaskConfig:
        config = await self.node.store.configs.find(tenant_id, task_type)
        if config is None:
            raise NotFoundError("task config", task_type)
        return config

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> Sequence[TaskConfig]:
        """A page of the tenant's configs by type."""
        check_number("limit", limit, least=1, most=MAX_PAGE)
        return await self.node.store.configs.list_page(tenant_id, after=after, limit=limit)

    async def put(
        self, config: TaskConfig, *, expected_revision: int | None = None, actor: Actor | None = None
    ) -> TaskConfig:
        """Create or replace it; with `expected_revision` (0: it must be new) only that one is replaced.

        What the code declared is the code's no longer, unless this says the same. The next fire time of a new or
        changed schedule is counted from now. What was due while it was disabled or paused is skipped, on record, when
        it goes on; so is what has passed of a schedule with other targets. What is replaced is the one of which that
        was noted: one that changed meanwhile is read again."""
        audit = record(self.node, actor, action="config.put", subject=config.type)
        for _ in range(MOST_TRIES):
            now = self.node.time.now()
            wanted, current = await self._aim(config, now=now, expected_revision=expected_revision)
            replaced = expected_revision
            if current is not None and expected_revision in (None, current.revision):
                if await settle(self.node.store, current, wanted=wanted, now=now):
                    continue  # what was read says a next fire time that has passed
                replaced = current.revision
            try:
                stored = await self.node.store.configs.put(_by(actor, wanted), expected_revision=replaced, audit=audit)
            except RevisionConflictError:
                if expected_revision is not None:
                    raise
                continue
            self.node.configs.forget(config.tenant_id, config.type)
            return await self._follow_calendars(stored)
        raise _changing(config.type)

    async def check_put(self, config: TaskConfig, *, expected_revision: int | None = None) -> TaskConfig:
        """What `put` would store, refused for whatever `put` would refuse; nothing is changed. Its revision is that of
        the one that it would replace, 0: none."""
        wanted, current = await self._aim(config, now=self.node.time.now(), expected_revision=expected_revision)
        revision = 0 if current is None else current.revision
        if expected_revision is not None and expected_revision != revision:
            raise RevisionConflictError(config.type, expected=expected_revision, current=revision)
        return replace(wanted.in_place_of(current), revision=revision)

    async def pause(self, tenant_id: TenantId, task_type: str, *, actor: Actor | None = None) -> TaskConfig:
        """Accept no new tasks of the type; those that are there go on."""
        key = (tenant_id, task_type)
        return await self._change(
            key, lambda config: replace(config, is_enabled=False), actor=actor, action="config.pause"
        )

    async def resume(self, tenant_id: TenantId, task_type: str, *, actor: Actor | None = None) -> TaskConfig:
        """Accept tasks of the type again."""
        key = (tenant_id, task_type)
        return await self._change(
            key, lambda config: replace(config, is_enabled=True), actor=actor, action="config.resume"
        )

    async def pause_schedule(
        self, tenant_id: TenantId, task_type: str, *, note: str = "", actor: Actor | None = None
    ) -> TaskConfig:
        """Let the schedule of the type fire nothing, and say why; tasks of the type are accepted as before."""
        change = partial(_with_pause, is_paused=True, note=note)
        return await self._change((tenant_id, task_type), change, actor=actor, action="schedule.pause")

    async def resume_schedule(self, tenant_id: TenantId, task_type: str, *, actor: Actor | None = None) -> TaskConfig:
        """Let the schedule fire again. Targets that passed meanwhile are skipped, on record as one range."""
        change = partial(_with_pause, is_paused=False, note="")
        return await self._change((tenant_id, task_type), change, actor=actor, action="schedule.resume")

    async def list_revisions(self, tenant_id: TenantId, task_type: str, *, limit: int) -> Sequence[TaskConfig]:
        """What the type was defined as, newest first, also if it was deleted since."""
        check_number("limit", limit, least=1, most=MAX_PAGE)
        found = await self.node.store.configs.list_revisions(tenant_id, task_type, limit=limit)
        if not found:
            raise NotFoundError("task config", task_type)
        return found

    async def roll_back(
        self, key: ConfigKey, revision: int, *, expected_revision: int | None = None, actor: Actor | None = None
    ) -> TaskConfig:
        """Define the type as it was, in a new revision; one that was deleted is there again.

        With `expected_revision` (0: it is deleted) only that one is replaced."""
        tenant_id, task_type = key
        check_number("revision", revision, least=1, most=MOST_REVISIONS)
        then = await self.node.store.configs.find_revision(tenant_id, task_type, revision=revision)
        if then is None:
            raise NotFoundError("task config revision", f"{task_type} {revision}")
        wanted = replace(then, next_fire_at=None, runs=0, last_run=None, revision=0, created_at=None, updated_at=None)
        return await self.put(wanted, expected_revision=expected_revision, actor=actor)

    async def trigger(self, wish: Submission, *, actor: Actor | None = None) -> Created:
        """Create a task of the type now."""
        await self.get(wish.tenant_id, wish.type)
        return await self.submit.create(wish, actor=actor)

    async def delete(self, tenant_id: TenantId, task_type: str, *, actor: Actor | None = None) -> None:
        """Remove it; its revisions and its tasks stay."""
        audit = record(self.node, actor, action="config.delete", subject=task_type)
        is_gone = await self.node.store.configs.delete(tenant_id, task_type, audit=audit)
        self.node.configs.forget(tenant_id, task_type)
        if not is_gone:
            raise NotFoundError("task config", task_type)

    async def _aim(
        self, config: TaskConfig, *, now: datetime, expected_revision: int | None
    ) -> tuple[TaskConfig, TaskConfig | None]:
        """The config, checked, with the time at which it fires first; and the one that it would replace.

        A schedule that would never fire is refused, unless it is there already: then it has ended."""
        self.check(config)
        calendars = await calendars_of(self.node.store.calendars, config.tenant_id, schedule=config.schedule)
        check_schedule(config, calendars)
        if expected_revision is not None:
            check_number("revision", expected_revision, least=0, most=MOST_REVISIONS)
        current = await self._find_readable(config.tenant_id, config.type)
        config = as_put(config, current)
        config = replace(config, next_fire_at=first_fire_at(config, now, calendars=calendars, current=current))
        if current is None or not config.has_targets_of(current):
            check_fires(config, now, calendars=calendars)
        return config, current

    async def _follow_calendars(self, stored: TaskConfig) -> TaskConfig:
        """Its next fire time by its calendars as they are: a change of one since it was asked has passed it by."""
        schedule = stored.schedule
        if schedule is None or not schedule.moves:
            return stored
        calendars = await calendars_of(self.node.store.calendars, stored.tenant_id, schedule=schedule)
        try:
            next_fire_at = aimed_anew(stored, self.node.time.now(), calendars=calendars)
        except InvalidError:  # it cannot be read any more; firing says so, on record
            return stored
        if next_fire_at == stored.next_fire_at or not await self.node.store.schedules.aim(stored, next_fire_at):
            return stored
        return replace(stored, next_fire_at=next_fire_at)

    async def _find_readable(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        """The one that is about to be replaced. What was due of one that cannot be read is on record already."""
        try:
            return await self.node.store.configs.find(tenant_id, task_type)
        except InvalidError:
            return None

    async def _change(
        self, key: ConfigKey, change: Callable[[TaskConfig], TaskConfig], *, actor: Actor | None, action: str
    ) -> TaskConfig:
        audit = record(self.node, actor, action=action, subject=key[1])
        for _ in range(MOST_TRIES):
            current = await self.get(*key)
            wanted = change(current)
            if wanted == current:
                return current
            if await settle(self.node.store, current, wanted=wanted, now=self.node.time.now()):
                continue  # what was read says a next fire time that has passed
            try:
                stored = await self.node.store.configs.put(
                    _by(actor, wanted), expected_revision=current.revision, audit=audit
                )
            except RevisionConflictError:
                continue
            self.node.configs.forget(*key)
            return stored
        raise _changing(key[1])


def _changing(task_type: str) -> ConflictError:
    return ConflictError(f"task config {task_type!r} changed {MOST_TRIES} times while it was being changed; try again")


def _by(actor: Actor | None, config: TaskConfig) -> TaskConfig:
    """The config as this actor wants it; what is stored says who that was."""
    return replace(config, updated_by="" if actor is None else tidy_text(actor.name, longest=MAX_ACTOR))


def _with_pause(config: TaskConfig, *, is_paused: bool, note: str) -> TaskConfig:
    if config.schedule is None:
        raise NotFoundError("schedule", config.type)
    return replace(config, schedule=replace(config.schedule, is_paused=is_paused, pause_note=note))
