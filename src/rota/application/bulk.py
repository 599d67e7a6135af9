"""One action on all tasks that match a filter: in batches, and bounded for each call, also by how long it takes, since
few of very many tasks may match.

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
from rota.domain.task import BLOCKED, FAILED, FINAL, LIVE, TIMEOUT, WAITING, Task, TaskState, TaskStatus

MOST_PER_CALL = 10_000
LONGEST_CALL_S = 5.0  # of what is begun: clients give up after 30, and would not know where to go on
PAGE = 100  # tasks that are read at once: a payload may have 256 KiB, a result 64
NOT_BEGUN = WAITING | {BLOCKED}  # which alone can be made more or less urgent
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
    """What there is to know of a task to cancel it, or to change how urgent it is."""

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

        return await self._run(self._list_seen(selection, LIVE), act=act)

    async def reprioritise(self, selection: Selection, priority: int, *, actor: Actor | None = None) -> BulkOutcome:
        """Change how urgent those are that wait; one that is as urgent already is left as it is."""

        async def act(tasks: Sequence[_Seen]) -> int:
            return await self._reprioritise(tasks, priority, actor=actor)

        return await self._run(self._list_seen(selection, NOT_BEGUN), act=act)

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
        done, clock = BulkOutcome(), self.node.clock
        enough_at = clock.monotonic() + LONGEST_CALL_S
        try:
            async for page in pages:
                changed = await act(page.items)
                done = BulkOutcome(done.matched + len(page.items), done.changed + changed, page.next_before)
                is_enough = done.matched >= MOST_PER_CALL or clock.monotonic() >= enough_at
                if is_enough and done.next_before is not None:
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

    def _list_seen(self, selection: Selection, fit: frozenset[TaskStatus]) -> AsyncIterator[Page[_Seen]]:
        """Those with these ids, or those that match and are in a state that fits."""
        if selection.ids:
            return self._see(selection)
        asked = selection.wanted.statuses
        return self._look_at(selection.wanted, asked & fit if asked else fit)

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
        done, late = await self._write(steps, action="task.cancel", actor=actor)
        await self.steer.stop(done)

        async def cancel(state: TaskState) -> None:
            await self.steer.cancel(state.id, state.tenant_id, reason=reason, actor=actor)

        return len(done) + await _one_by_one(late, cancel)

    async def _reprioritise(self, tasks: Sequence[_Seen], priority: int, *, actor: Actor | None) -> int:
        now = self.node.time.now()
        steps = [
            TypedStep(task.type, task.state.amended(priority=priority, at=now))
            for task in tasks
            if task.state.status in NOT_BEGUN and task.state.priority != priority
        ]
        if not steps:
            return 0
        done, late = await self._write(steps, action="task.patch", detail=f"priority {priority}", actor=actor)
        await self.steer.queue_anew([one.step for one in done])

        async def amend(state: TaskState) -> None:
            await self.steer.amend(state.id, state.tenant_id, priority=priority, actor=actor)

        return len(done) + await _one_by_one(late, amend)

    async def _write(
        self, steps: Sequence[TypedStep], *, action: str, detail: str = "", actor: Actor | None
    ) -> tuple[list[TypedStep], list[TaskState]]:
        """Those of the steps that count, and the tasks that moved between the look and the write."""
        entries = [record(self.node, actor, action=action, subject=one.step.task_id, detail=detail) for one in steps]
        audit = [entry for kept in entries for entry in kept]
        written = await self.node.store.tasks.advance([one.step for one in steps], audit=audit)
        done = [one for one in steps if one.step.task_id not in written.stale]
        return done, [one.step.before for one in steps if one.step.task_id in written.stale]


async def _one_by_one(late: Sequence[TaskState], act: Callable[[TaskState], Awaitable[None]]) -> int:
    """For those that moved on: some are beyond it by now, of the others it is still wanted."""
    changed = 0
    for state in late:
        with suppress(ConflictError, NotFoundError):
            await act(state)
            changed += 1
    return changed


def _pieces(selection: Selection) -> Iterator[list[TaskId]]:
    """The ids, each once, however often it was given."""
    ids = list(dict.fromkeys(selection.ids))
    return (ids[start : start + PAGE] for start in range(0, len(ids), PAGE))
