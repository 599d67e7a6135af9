"""What people do with task configs: look, define, pause, resume, run now, delete."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rota.application.audit import Actor, record
from rota.application.node import Node
from rota.application.submit import Created, SubmitTasks
from rota.domain.checks import check_number
from rota.domain.errors import ConflictError, NotFoundError, RevisionConflictError
from rota.domain.firing import check_schedule, first_fire_at, skip_pause
from rota.domain.ids import TenantId
from rota.domain.paging import MAX_PAGE
from rota.domain.submission import Submission
from rota.domain.task_config import TaskConfig

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

        The next fire time of a new or changed schedule is counted from now; what was due while it was disabled is
        skipped, on record, when it is enabled again."""
        self.check(config)
        check_schedule(config)
        if expected_revision is not None:
            check_number("revision", expected_revision, least=0, most=MOST_REVISIONS)
        audit = record(self.node, actor, action="config.put", subject=config.type)
        if config.schedule is not None:
            config = replace(config, next_fire_at=first_fire_at(config, self.node.time.now()))
            current = await self.node.store.configs.find(config.tenant_id, config.type)
            if current is not None and config.is_enabled and expected_revision in (None, current.revision):
                await self._skip_pause(current)
        stored = await self.node.store.configs.put(config, expected_revision=expected_revision, audit=audit)
        self.node.configs.forget(config.tenant_id, config.type)
        return stored

    async def pause(self, tenant_id: TenantId, task_type: str, *, actor: Actor | None = None) -> TaskConfig:
        """Accept no new tasks of the type; those that are there go on."""
        return await self._enable(False, (tenant_id, task_type), actor=actor, action="config.pause")

    async def resume(self, tenant_id: TenantId, task_type: str, *, actor: Actor | None = None) -> TaskConfig:
        """Accept tasks of the type again."""
        return await self._enable(True, (tenant_id, task_type), actor=actor, action="config.resume")

    async def list_revisions(self, tenant_id: TenantId, task_type: str, *, limit: int) -> Sequence[TaskConfig]:
        """What the type was defined as, newest first, also if it was deleted since."""
        check_number("limit", limit, least=1, most=MAX_PAGE)
        found = await self.node.store.configs.list_revisions(tenant_id, task_type, limit=limit)
        if not found:
            raise NotFoundError("task config", task_type)
        return found

    async def roll_back(
        self, tenant_id: TenantId, task_type: str, *, revision: int, actor: Actor | None = None
    ) -> TaskConfig:
        """Define the type as it was, in a new revision; one that was deleted is there again."""
        check_number("revision", revision, least=1, most=MOST_REVISIONS)
        then = await self.node.store.configs.find_revision(tenant_id, task_type, revision=revision)
        if then is None:
            raise NotFoundError("task config revision", f"{task_type} {revision}")
        wanted = replace(then, next_fire_at=None, runs=0, last_run=None, revision=0, created_at=None, updated_at=None)
        return await self.put(wanted, actor=actor)

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

    async def _skip_pause(self, current: TaskConfig) -> None:
        """Note what was due while it was disabled as skipped, one range of it: resuming causes no storm."""
        skipped = None if current.is_enabled else skip_pause(current, self.node.time.now())
        if skipped is not None:
            await self.node.store.schedules.fire([skipped])

    async def _enable(
        self, is_enabled: bool, key: tuple[TenantId, str], *, actor: Actor | None, action: str
    ) -> TaskConfig:
        audit = record(self.node, actor, action=action, subject=key[1])
        for _ in range(MOST_TRIES):
            current = await self.get(*key)
            if current.is_enabled is is_enabled:
                return current
            if is_enabled:
                await self._skip_pause(current)
            wanted = replace(current, is_enabled=is_enabled)
            try:
                stored = await self.node.store.configs.put(wanted, expected_revision=current.revision, audit=audit)
            except RevisionConflictError:
                continue
            self.node.configs.forget(*key)
            return stored
        raise ConflictError(f"task config {key[1]!r} changed {MOST_TRIES} times while it was being changed; try again")
