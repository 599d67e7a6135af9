"""Tasks and their record in memory."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from rota.application.ports.store import Added, Written
from rota.domain.audit import AuditEntry, check_subjects, entries_about
from rota.domain.ids import TaskId, TenantId, WorkerId, first_id_at
from rota.domain.log import PROGRESS_MARK, LogEntry, Progress, check_lines, entry_for, progress_of
from rota.domain.paging import Page, TaskFilter, purge_limit
from rota.domain.submission import NewTask, find_owners
from rota.domain.task import PROCESSING, WAITING, LiveTask, Task, TaskStatus, Transition, check_one_step_each
from rota.infrastructure.store.memory.state import MemoryState


class MemoryTaskStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def now(self) -> datetime:
        return self._state.clock.now()

    async def add(self, new: Sequence[NewTask]) -> list[Added]:
        owners = find_owners(new, self._state.keys)
        fresh = [item for item, owner in zip(new, owners, strict=True) if owner == item.task.id]
        for item in fresh:
            self._state.check_id(item.task)
        for item in fresh:
            if item.request_key is not None:
                self._state.keys[item.request_key] = (item.task.id, item.digest)
            if item.task.id not in self._state.tasks:
                self._state.insert(item.task)
                self._state.record(item.audit)
        return [Added(owner, is_repeat=owner != item.task.id) for item, owner in zip(new, owners, strict=True)]

    async def advance(self, steps: Sequence[Transition], *, audit: Sequence[AuditEntry] = ()) -> Written:
        check_one_step_each(steps)
        check_subjects(audit, [step.task_id for step in steps])
        fitting = [step for step in steps if self._version_of(step.task_id) == step.before.version]
        applied = frozenset(step.task_id for step in fitting)
        others = [step for step in steps if step.task_id not in applied]
        repeated = frozenset(step.task_id for step in others if self._stands_at(step))
        for step in fitting:
            self._write(step)
        self._state.record(entries_about(audit, applied))
        return Written(applied, repeated, stale=frozenset(step.task_id for step in others) - repeated)

    async def find(self, task_id: TaskId, tenant_id: TenantId) -> Task | None:
        task = self._state.tasks.get(task_id)
        return task if task is not None and task.spec.tenant_id == tenant_id else None

    async def load(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        return {task_id: self._state.tasks[task_id] for task_id in task_ids if task_id in self._state.tasks}

    async def find_by_keys(self, tenant_id: TenantId, keys: Collection[str]) -> dict[str, TaskId]:
        known = self._state.keys
        return {key: known[tenant_id, key][0] for key in keys if (tenant_id, key) in known}

    async def find_live(self, task_ids: Sequence[TaskId]) -> list[LiveTask]:
        return [_to_live(self._state.tasks[task_id]) for task_id in task_ids if task_id in self._state.live]

    async def list_live(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        return self._list_live(lambda task: task.id > (after or 0))[:limit]

    async def list_due(self, limit: int) -> list[LiveTask]:
        return self._list_past(WAITING, limit)

    async def list_overdue(self, limit: int) -> list[LiveTask]:
        return self._list_past(frozenset({PROCESSING}), limit)

    async def list_held(self, worker_id: WorkerId) -> list[LiveTask]:
        return self._list_live(lambda task: task.state.status is PROCESSING and task.state.worker_id == worker_id)

    async def list_running(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        return self._list_live(lambda task: task.state.status is PROCESSING and task.id > (after or 0))[:limit]

    async def list_page(self, wanted: TaskFilter) -> Page[Task]:
        found = (task for _, task in sorted(self._state.tasks.items(), reverse=True) if _matches(task, wanted))
        tasks = tuple(task for task, _ in zip(found, range(wanted.limit + 1), strict=False))
        page = tasks[: wanted.limit]
        return Page(page, next_before=page[-1].id if len(tasks) > wanted.limit else None)

    async def count_by_status(self, tenant_id: TenantId | None) -> dict[TaskStatus, int]:
        tasks = self._state.tasks.values()
        return dict(Counter(task.state.status for task in tasks if tenant_id in (None, task.spec.tenant_id)))

    async def count_ended(self, tenant_id: TenantId) -> dict[TaskStatus, int]:
        return {status: number for (tenant, status), number in self._state.ended.items() if tenant == tenant_id}

    async def purge(self, *, completed_before: datetime, limit: int) -> int:
        ended = (task for _, task in sorted(self._state.tasks.items()) if _ended_before(task, completed_before))
        doomed = {task.id for task, _ in zip(ended, range(purge_limit(limit)), strict=False)}
        for task_id in doomed:
            del self._state.tasks[task_id]
            self._state.logs.pop(task_id, None)
        self._state.keys = {key: first for key, first in self._state.keys.items() if first[0] not in doomed}
        return len(doomed)

    def _version_of(self, task_id: TaskId) -> int | None:
        return self._state.tasks[task_id].state.version if task_id in self._state.live else None

    def _stands_at(self, step: Transition) -> bool:
        task = self._state.tasks.get(step.task_id)
        return task is not None and task.state == step.after

    def _write(self, step: Transition) -> None:
        self._state.tasks[step.task_id] = self._state.tasks[step.task_id].after(step)
        if step.is_recorded:
            self._state.keep(entry_for(step))
        if step.after.status.is_final:
            self._state.live.remove(step.task_id)
            self._state.ended[step.after.tenant_id, step.after.status] += 1

    def _list_live(self, is_wanted: Callable[[Task], bool]) -> list[LiveTask]:
        tasks = (self._state.tasks[task_id] for task_id in sorted(self._state.live))
        return [_to_live(task) for task in tasks if is_wanted(task)]

    def _list_past(self, statuses: frozenset[TaskStatus], limit: int) -> list[LiveTask]:
        now = self._state.clock.now()
        past = self._list_live(lambda task: task.state.status in statuses and task.state.due_at <= now)
        return sorted(past, key=lambda live: (live.state.due_at, live.id))[:limit]


class MemoryLogStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def append(self, entries: Sequence[LogEntry]) -> None:
        check_lines(entries)
        for entry in entries:
            self._state.keep(entry)

    async def read(self, task_id: TaskId, *, after: int = 0, limit: int = 1000) -> list[LogEntry]:
        entries = self._state.logs.get(task_id, {})
        return [entries[seq] for seq in sorted(entries) if seq > after][:limit]

    async def find_progress(self, task_id: TaskId, attempt: int) -> Progress | None:
        entries = self._state.logs.get(task_id, {})
        for seq in sorted(entries, reverse=True):
            if entries[seq].attempt == attempt and entries[seq].detail.startswith(PROGRESS_MARK):
                return progress_of(entries[seq])
        return None


def _to_live(task: Task) -> LiveTask:
    return LiveTask(state=task.state, type=task.spec.type, timeout=task.spec.timeout)


def _ended_before(task: Task, moment: datetime) -> bool:
    return task.state.completed_at is not None and task.state.completed_at < moment


def _matches(task: Task, wanted: TaskFilter) -> bool:
    spec, state = task.spec, task.state
    return (
        spec.tenant_id == wanted.tenant_id
        and _is_in_range(task.id, wanted)
        and (not wanted.statuses or state.status in wanted.statuses)
        and (not wanted.types or spec.type in wanted.types)
        and (not wanted.priorities or state.priority in wanted.priorities)
        and (wanted.worker_id is None or state.worker_id == wanted.worker_id)
        and (wanted.text in spec.name or wanted.text in spec.type)
        and wanted.metadata.items() <= spec.metadata.items()
    )


def _is_in_range(task_id: TaskId, wanted: TaskFilter) -> bool:
    return (
        (wanted.before is None or task_id < wanted.before)
        and (wanted.created_after is None or task_id >= first_id_at(wanted.created_after))
        and (wanted.created_before is None or task_id < first_id_at(wanted.created_before))
    )
