"""One action on all tasks that match a filter: in batches, and bounded for each call.

Tasks are met newest first, and a call that stops at its bound, or because the store went away, says where: what it adds
is newer than that, so the next call, which goes on from there, meets nothing twice. Under a key a whole call may be
repeated too.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from rota.application.audit import Actor, record
from rota.application.node import Node
from rota.application.steer import SteerTasks
from rota.application.submit import SubmitTasks
from rota.application.take_back import TypedStep
from rota.domain.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from rota.domain.ids import TaskId
from rota.domain.paging import Page, TaskFilter
from rota.domain.task import FAILED, FINAL, LIVE, TIMEOUT, Task, TaskState, TaskStatus

MOST_PER_CALL = 10_000
PAGE = 500
WORTH_A_RETRY = frozenset({FAILED, TIMEOUT})  # where nobody says which ended tasks to run again

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks that a filter finds; or these, if ids are given."""

    wanted: TaskFilter
    ids: tuple[TaskId, ...] = ()

    def __post_init__(self) -> None:
        if len(self.ids) > MOST_PER_CALL:
            raise InvalidError("ids", f"has {len(self.ids)} ids, at most {MOST_PER_CALL} are allowed at once")


@dataclass(frozen=True, slots=True)
class BulkOutcome:
    """How many matched and were changed; the others had moved on. None is left unless it says where to go on."""

    matched: int = 0
    changed: int = 0
    next_before: TaskId | None = None

    @property
    def skipped(self) -> int:
        return self.matched - self.changed


@dataclass(frozen=True, slots=True)
class _Seen:
    """What there is to know of a task to cancel it."""

    type: str
    state: TaskState


@dataclass(frozen=True, slots=True)
class BulkTasks:
    node: Node
    submit: SubmitTasks
    steer: SteerTasks

    async def cancel(self, selection: Selection, *, reason: str = "", actor: Actor | None = None) -> BulkOutcome:
        """End those that have not ended."""

        async def act(tasks: Sequence[_Seen]) -> int:
            return await self._cancel(tasks, reason=reason, actor=actor)

        asked = selection.wanted.statuses
        pages = (
            self._see(selection) if selection.ids else self._look_at(selection.wanted, asked & LIVE if asked else LIVE)
        )
        return await self._run(pages, act=act)

    async def retry(self, selection: Selection, *, key: str | None = None, actor: Actor | None = None) -> BulkOutcome:
        """Do the work of those that have ended again, each as a new task; under the same key each only once."""

        async def act(tasks: Sequence[Task]) -> int:
            ended = [task for task in tasks if task.state.status.is_final]
            return len(await self.submit.rerun_many(ended, key=key, actor=actor)) if ended else 0

        asked = selection.wanted.statuses
        statuses = asked & FINAL if asked else WORTH_A_RETRY
        return await self._run(
            self._load(selection) if selection.ids else self._find(selection.wanted, statuses), act=act
        )

    async def _run(self, pages: AsyncIterator[Page[T]], *, act: Callable[[Sequence[T]], Awaitable[int]]) -> BulkOutcome:
        done = BulkOutcome()
        try:
            async for page in pages:
                changed = await act(page.items)
                done = BulkOutcome(done.matched + len(page.items), done.changed + changed, page.next_before)
                if done.matched >= MOST_PER_CALL:
                    return done
        except UnavailableError:
            if done.next_before is None:  # nothing is done yet, or it cannot be said where to go on
                raise
            return done
        return done

    async def _find(self, wanted: TaskFilter, statuses: frozenset[TaskStatus]) -> AsyncIterator[Page[Task]]:
        if not statuses:  # none of the states that were asked for can be acted on
            return
        following = replace(wanted, statuses=statuses, limit=PAGE)
        while True:
            page = await self.node.store.tasks.list_page(following)
            yield page
            if page.next_before is None:
                return
            following = replace(following, before=page.next_before)

    async def _load(self, selection: Selection) -> AsyncIterator[Page[Task]]:
        """Those of the ids that are tasks of the tenant."""
        for ids in _pieces(selection):
            found = (await self.node.store.tasks.load(ids)).values()
            yield Page(tuple(task for task in found if task.spec.tenant_id == selection.wanted.tenant_id), None)

    async def _look_at(self, wanted: TaskFilter, statuses: frozenset[TaskStatus]) -> AsyncIterator[Page[_Seen]]:
        async for page in self._find(wanted, statuses):
            yield Page(tuple(_Seen(task.spec.type, task.state) for task in page.items), page.next_before)

    async def _see(self, selection: Selection) -> AsyncIterator[Page[_Seen]]:
        """The same as `_load`, but of those that have not ended no payload is read."""
        for ids in _pieces(selection):
            live = [_Seen(task.type, task.state) for task in await self.node.store.tasks.find_live(ids)]
            known = {one.state.id for one in live}
            others = [task_id for task_id in ids if task_id not in known]
            ended = (await self.node.store.tasks.load(others)).values() if others else ()
            seen = [*live, *(_Seen(task.spec.type, task.state) for task in ended)]
            yield Page(tuple(one for one in seen if one.state.tenant_id == selection.wanted.tenant_id), None)

    async def _cancel(self, tasks: Sequence[_Seen], *, reason: str, actor: Actor | None) -> int:
        now = self.node.time.now()
        steps = [
            TypedStep(task.type, task.state.cancelled(reason, at=now))
            for task in tasks
            if not task.state.status.is_final
        ]
        if not steps:
            return 0
        entries = [record(self.node, actor, action="task.cancel", subject=one.step.task_id) for one in steps]
        audit = [entry for kept in entries for entry in kept]
        written = await self.node.store.tasks.advance([one.step for one in steps], audit=audit)
        done = [one for one in steps if one.step.task_id not in written.stale]
        await self.steer.stop(done)
        late = [one.step.before for one in steps if one.step.task_id in written.stale]
        return len(done) + await self._cancel_one_by_one(late, reason=reason, actor=actor)

    async def _cancel_one_by_one(self, late: Sequence[TaskState], *, reason: str, actor: Actor | None) -> int:
        """Those that moved between the look and the write: some have ended, the others are still to be cancelled."""
        changed = 0
        for state in late:
            with suppress(ConflictError, NotFoundError):
                await self.steer.cancel(state.id, state.tenant_id, reason=reason, actor=actor)
                changed += 1
        return changed


def _pieces(selection: Selection) -> Iterator[list[TaskId]]:
    """The ids, each once, however often it was given."""
    ids = list(dict.fromkeys(selection.ids))
    return (ids[start : start + PAGE] for start in range(0, len(ids), PAGE))
