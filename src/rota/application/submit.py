"""Submitting tasks: checked, committed, queued, told; in this order.

The answer comes after the commit. Should queueing or telling fail, the answer is still yes: the row is there, and the
leader's reconciliation queues it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from msgspec.structs import replace

from rota.application.announce import announce_tasks
from rota.application.audit import Actor, record
from rota.application.group_commit import GroupCommit
from rota.application.node import Node
from rota.application.ports.store import Added
from rota.domain.checks import to_json
from rota.domain.errors import InvalidError, NotFoundError, UnavailableError
from rota.domain.ids import TaskId, TenantId
from rota.domain.log import LogEntry, rerun_entry
from rota.domain.submission import NewTask, Submission, check_enabled, compose, compose_rerun
from rota.domain.task import Task
from rota.domain.task_config import check_payload

MOST_AT_ONCE = 10_000
MOST_ERRORS = 100  # that are told of one batch
SLICE = 500  # tasks that are composed in one go: some 10 ms, in which the loop does nothing else

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Created:
    """A task that was added, or the one that the same key made before."""

    task: Task
    is_repeat: bool = False

    @property
    def task_id(self) -> TaskId:
        return self.task.id


class SubmitTasks:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._grouped: GroupCommit[NewTask, Added] = GroupCommit(self._add)

    async def submit(self, wish: Submission, *, actor: Actor | None = None) -> Added:
        """Add one task; concurrent calls share a commit."""
        return await self._grouped(await self._prepare(wish, actor))

    async def create(self, wish: Submission, *, actor: Actor | None = None) -> Created:
        """The same, with the task: as it was added, or as it is now if the key made it before."""
        return await self._create(await self._prepare(wish, actor))

    async def submit_many(self, wishes: Sequence[Submission], *, actor: Actor | None = None) -> list[Added]:
        """Add tasks, all or none, in one transaction; answers in order. The field of an error names the place."""
        if len(wishes) > MOST_AT_ONCE:
            raise InvalidError("tasks", f"has {len(wishes)} tasks, at most {MOST_AT_ONCE} are allowed at once")
        return await self._add(self._record_together(await self._compose_all(wishes), actor))

    async def rerun(
        self, task: Task, *, key: str | None = None, payload: Any = None, actor: Actor | None = None
    ) -> Created:
        """Add a new task that does the work of an ended one again; a repeat with the same key finds the first. With a
        payload, that is its input, and the first one need not have ended. Its record names the new one if it has:
        whoever follows that of a running one would wait behind such a line for what comes before it."""
        text = None if payload is None else await self._check_input(task, payload)
        created = await self._create(self._prepare_rerun(task, actor, key=key, payload=text))
        if task.state.status.is_final:
            await self._link([rerun_entry(task, created.task)])
        return created

    async def rerun_many(
        self, tasks: Sequence[Task], *, key: str | None = None, actor: Actor | None = None
    ) -> list[Added]:
        """The same for many ended tasks, all or none, in one transaction; each has its own key under the one given."""
        keys = [None if key is None else f"{key}#{task.id}" for task in tasks]
        new = [self._prepare_rerun(task, actor, key=one) for task, one in zip(tasks, keys, strict=True)]
        added = await self._add(new)
        pairs = zip(tasks, new, added, strict=True)
        await self._link([rerun_entry(task, item.task) for task, item, answer in pairs if not answer.is_repeat])
        return added

    async def close(self) -> None:
        await self._grouped.close()

    async def _create(self, new: NewTask) -> Created:
        added = await self._grouped(new)
        if not added.is_repeat:
            return Created(new.task)
        first = await self._node.store.tasks.find(added.task_id, new.task.spec.tenant_id)
        if first is None:
            raise NotFoundError("task", added.task_id)
        return Created(first, is_repeat=True)

    async def _prepare(self, wish: Submission, actor: Actor | None) -> NewTask:
        new = await self._compose(wish)
        audit = record(self._node, actor, action="task.create", subject=new.task.id, detail=new.task.spec.type)
        return NewTask(new.task, new.key, new.digest, audit)  # `replace` takes four times as long

    def _prepare_rerun(
        self, task: Task, actor: Actor | None, *, key: str | None = None, payload: str | None = None
    ) -> NewTask:
        task_id, now = TaskId(self._node.ids.next()), self._node.time.now()
        new = compose_rerun(task, task_id=task_id, now=now, key=key, payload=payload)
        detail = f"as task {task_id}" if payload is None else f"as task {task_id}, with other input"
        audit = record(self._node, actor, action="task.retry", subject=task.id, detail=detail)
        return replace(new, audit=audit)

    async def _check_input(self, task: Task, payload: Any) -> str:
        """The payload as text, if the type can take it."""
        text = to_json("payload", payload)
        config = await self._node.configs.find(task.spec.tenant_id, task.spec.type)
        if config is None:
            return text
        check_enabled(config)  # it is new work, unlike that of a mere repeat
        return check_payload(text, executor_type=config.executor_type)

    async def _link(self, entries: Sequence[LogEntry]) -> None:
        """Tell in the records of tasks that they were run again: a mere hint, since the new ones name them."""
        if not entries:
            return
        try:
            await self._node.store.logs.append(entries)
        except UnavailableError as exc:
            log.warning("rerun.not_linked", tasks=[entry.task_id for entry in entries[:10]], error=str(exc))

    async def _compose(self, wish: Submission) -> NewTask:
        config = await self._node.configs.find(TenantId(wish.tenant_id), wish.type)
        return compose(wish, config, task_id=TaskId(self._node.ids.next()), now=self._node.time.now())

    async def _compose_all(self, wishes: Sequence[Submission]) -> list[NewTask]:
        """What is the same for all of them is looked up once; others get their turn in between."""
        configs = await self._node.configs.find_all((TenantId(wish.tenant_id), wish.type) for wish in wishes)
        ids, now = self._node.ids.take(len(wishes)), self._node.time.now()
        new: list[NewTask] = []
        errors: list[InvalidError] = []
        for place, wish in enumerate(wishes):
            config = configs.get((TenantId(wish.tenant_id), wish.type))
            try:
                new.append(compose(wish, config, task_id=TaskId(ids[place]), now=now))
            except InvalidError as exc:
                errors.append(InvalidError(f"tasks[{place}].{exc.field}", exc.problem))
                if len(errors) == MOST_ERRORS:
                    break
            if place % SLICE == SLICE - 1:
                await self._node.clock.sleep(timedelta(0))
        if errors:
            raise InvalidError.of(errors)
        return new

    def _record_together(self, new: Sequence[NewTask], actor: Actor | None) -> Sequence[NewTask]:
        """The tasks with one entry for all, which is kept if any of them is new."""
        if actor is None or not new:
            return new
        types = ", ".join(sorted({item.task.spec.type for item in new}))
        detail = f"{len(new)} tasks, {new[0].task.id} to {new[-1].task.id}"
        audit = record(self._node, actor, action="task.create_many", subject=types, detail=detail)
        return [NewTask(item.task, item.key, item.digest, audit) for item in new]

    async def _add(self, new: Sequence[NewTask]) -> list[Added]:
        added = await self._node.store.tasks.add(new)
        fresh = [item.task for item, answer in zip(new, added, strict=True) if not answer.is_repeat]
        await announce_tasks(self._node, fresh)
        return added
