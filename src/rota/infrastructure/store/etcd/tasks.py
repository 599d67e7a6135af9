"""Tasks in etcd: adding, advancing, finding, counting, purging.

A step of a task is written under the condition that the key by time still names the version it started from: whoever
makes a step knows that key and that value. Each step of a batch has its own condition inside one transaction, which
answers for each whether it was met; the others had been written before, or are stale. A batch beyond what etcd takes at
once (`ops.cut`) is several transactions in a row, each of whole steps.

What is added is all or nothing, in one transaction: more than fits one is refused.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from urllib.parse import unquote

import msgspec

from rota.application.ports.store import Added, Written
from rota.domain.audit import AuditEntry, check_subjects, entries_about
from rota.domain.ids import TaskId, TenantId, WorkerId, first_id_at
from rota.domain.log import entry_for
from rota.domain.paging import Page, TaskFilter, purge_limit
from rota.domain.submission import NewTask
from rota.domain.task import FINAL, LiveTask, Task, TaskState, TaskStatus, Transition, check_one_step_each
from rota.infrastructure.etcd.ops import (
    Answer,
    Op,
    Span,
    count,
    cut,
    delete,
    delete_span,
    has_value,
    put,
    together,
    when,
)
from rota.infrastructure.instants import to_us
from rota.infrastructure.store.etcd.adding import TaskAdder
from rota.infrastructure.store.etcd.audit import audit_ops
from rota.infrastructure.store.etcd.documents import (
    ResultDocument,
    encode,
    mark,
    place_in_time,
    read_result,
    read_state,
    result_document,
    state_document,
)
from rota.infrastructure.store.etcd.listing import list_page
from rota.infrastructure.store.etcd.records import MOST_LONG, complete_tasks, due_key, load_tasks, log_key
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, id_of, present, spell_time
from rota.infrastructure.store.spec_documents import read_spec, to_live

Purged = dict[str, dict[TaskStatus, int]]  # by tenant


class EtcdTaskStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space
        self._adder = TaskAdder(space)

    async def now(self) -> datetime:
        return self._space.now()

    async def add(self, new: Sequence[NewTask]) -> list[Added]:
        return await self._adder.add(new) if new else []

    async def advance(self, steps: Sequence[Transition], *, audit: Sequence[AuditEntry] = ()) -> Written:
        check_one_step_each(steps)
        check_subjects(audit, [step.task_id for step in steps])
        writes = [[self._write(step, entries_about(audit, [step.task_id]))] for step in steps]
        answers: list[Answer] = []
        for groups in cut(writes):
            answers += (await self._space.client.write([op for group in groups for op in group])).answers
        applied = {step.task_id for step, answer in zip(steps, answers, strict=True) if answer.txn.succeeded}
        others = [step for step in steps if step.task_id not in applied]
        states = await self._find_states([step.task_id for step in others])
        repeated = frozenset(step.task_id for step in others if states.get(step.task_id) == step.after)
        stale = frozenset(step.task_id for step in others) - repeated
        return Written(frozenset(applied), repeated, stale)

    async def find(self, task_id: TaskId, tenant_id: TenantId) -> Task | None:
        task = (await self.load([task_id])).get(task_id)
        return task if task is not None and task.spec.tenant_id == tenant_id else None

    async def load(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        specs, lives = await self._space.find_ids(["tasks", "live"], task_ids)
        return await complete_tasks(self._space, {one: specs[one] for one in task_ids if one in specs}, lives=lives)

    async def find_by_keys(self, tenant_id: TenantId, keys: Collection[str]) -> dict[str, TaskId]:
        found = await self._adder.find_firsts([(tenant_id, key) for key in keys])
        return {key: task_id for (_, key), (task_id, _) in found.items()}

    async def find_live(self, task_ids: Sequence[TaskId]) -> list[LiveTask]:
        specs, lives = await self._space.find_ids(["tasks", "live"], task_ids)
        found = [task_id for task_id in task_ids if task_id in lives and task_id in specs]
        return [to_live(read_state(lives[task_id]), read_spec(specs[task_id].value)) for task_id in found]

    async def list_live(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        found = await self._space.scan(self._space.ids_from("live", (after or 0) + 1), limit)
        return await self._with_types(list(map(read_state, found)))

    async def list_due(self, limit: int) -> list[LiveTask]:
        return await self._list_past("w", limit)

    async def list_overdue(self, limit: int) -> list[LiveTask]:
        return await self._list_past("r", limit)

    async def list_held(self, worker_id: WorkerId) -> list[LiveTask]:
        running = await self._space.scan(self._space.all("due", "r"))
        held = sorted(id_of(kv) for kv in running if _marked(kv)[2] == str(worker_id))
        return [live for live in await self._find_in("r", held) if live.state.worker_id == worker_id]

    async def list_running(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        running = await self._space.scan(self._space.all("due", "r"))
        ids = sorted(task_id for task_id in map(id_of, running) if task_id > (after or 0))
        found: list[LiveTask] = []
        for start in range(0, len(ids), limit):  # what ends between the two looks must not make a page look the last
            found += await self._find_in("r", ids[start : start + limit])
            if len(found) >= limit:
                break
        return found[:limit]

    async def list_page(self, wanted: TaskFilter) -> Page[Task]:
        return await list_page(self._space, wanted, load=load_tasks)

    async def count_by_status(self, tenant_id: TenantId | None) -> dict[TaskStatus, int]:
        marks = [_marked(kv) for kv in await self._space.scan(self._space.all("due"))]
        numbers = Counter(TaskStatus(status) for _, status, _, tenant in marks if tenant_id in (None, tenant))
        for tenant in await self._find_tenants() if tenant_id is None else [tenant_id]:
            numbers.update(await self._count_present(tenant))
        return dict(numbers)

    async def count_ended(self, tenant_id: TenantId) -> dict[TaskStatus, int]:
        found = await self._space.find(self._space.key("purged"))
        purged = Counter(_read_purged(found).get(tenant_id, {}))
        return dict(purged + Counter(await self._count_present(tenant_id)))

    async def purge(self, *, completed_before: datetime, limit: int) -> int:
        left, total = purge_limit(limit), 0
        span = self._space.ids_from("results", 0, before=first_id_at(completed_before) + 1)
        while left > 0:
            page = await self._space.scan(span, MOST_LONG)
            old = [(kv, end) for kv in page if (end := read_result(kv)).state.completed_us < to_us(completed_before)]
            purged = await self._purge(old[:left]) if old else 0
            total, left = total + purged, left - purged
            if len(page) < MOST_LONG:
                break
            span = Span(page[-1].key + b"\0", span.end)
        return total

    async def _list_past(self, place: str, limit: int) -> list[LiveTask]:
        until = f"{self._space.key('due', place)}/{spell_time(to_us(self._space.now()))}`"  # the sign after _
        span = self._space.all("due", place)
        found = await self._space.scan(Span(span.start, until.encode()), limit)
        return await self._find_in(place, [id_of(kv) for kv in found])

    async def _find_in(self, place: str, task_ids: Sequence[TaskId]) -> list[LiveTask]:
        """Those of the tasks that a list by time had which have not left it since."""
        return [live for live in await self.find_live(task_ids) if place_in_time(live.state) == place]

    async def _with_types(self, states: Sequence[TaskState]) -> list[LiveTask]:
        [specs] = await self._space.find_ids(["tasks"], [state.id for state in states])
        return [to_live(state, read_spec(specs[state.id].value)) for state in states if state.id in specs]

    async def _find_states(self, task_ids: Sequence[TaskId]) -> dict[TaskId, TaskState]:
        live = present(await self._space.find_all([self._space.key("live", task_id) for task_id in task_ids]))
        return {task_id: task.state for task_id, task in (await self.load(task_ids)).items()} | {
            state.id: state for state in map(read_state, live)
        }

    async def _find_tenants(self) -> list[TenantId]:
        """Those of which tasks have ended, by one look for each: beyond the keys of the one before."""
        tenants: list[TenantId] = []
        span = self._space.all("ended")
        while found := await self._space.scan(span, 1):
            folder = found[0].key.rsplit(b"/", 2)[0]
            tenants.append(TenantId(unquote(folder.rpartition(b"/")[2].decode())))
            span = Span(folder + b"0", span.end)  # 0 follows the slash
        return tenants

    async def _count_present(self, tenant_id: TenantId) -> dict[TaskStatus, int]:
        statuses = sorted(FINAL)
        asked = [count(self._space.all("ended", tenant_id, status)) for status in statuses]
        answers = (await self._space.client.read(asked)).answers
        return {status: one.range.count for status, one in zip(statuses, answers, strict=True) if one.range.count}

    def _write(self, step: Transition, audit: Sequence[AuditEntry]) -> Op:
        key, before, after = self._space.key, step.before, step.after
        old, is_end = due_key(self._space, before), after.status.is_final
        changes = [] if not is_end and old == due_key(self._space, after) else [delete(old)]
        if is_end:
            changes += [
                delete(key("live", after.id)),
                put(key("results", after.id), result_document(step)),
                put(key("ended", after.tenant_id, after.status, after.id)),
            ]
        else:
            changes += [
                put(due_key(self._space, after), mark(after)),
                put(key("live", after.id), encode(state_document(after))),
            ]
            if step.is_recorded:
                changes.append(put(log_key(self._space, entry_for(step)), encode(entry_for(step))))
            if step.error is not None:
                changes.append(put(key("errors", after.id), encode(step.error)))
        return when([has_value(old, mark(before))], [*changes, *audit_ops(self._space, audit)])

    async def _purge(self, old: Sequence[tuple[KV, ResultDocument]]) -> int:
        """Delete tasks and count them, unless another purge was faster: then what is left of them."""
        tally = self._space.key("purged")
        while old:
            ids = [id_of(kv) for kv, _ in old]
            found, *results = await self._space.find_all([tally, *(self._space.key("results", one) for one in ids)])
            old = [(kv, end) for (kv, end), now in zip(old, results, strict=True) if now is not None]
            specs = await self._space.find_all([self._space.key("tasks", id_of(kv)) for kv, _ in old])
            gone = [self._forget(id_of(kv), end, spec=spec) for (kv, end), spec in zip(old, specs, strict=True)]
            numbers = _add_purged(_read_purged(found), [end for _, end in old])
            if gone and await self._space.write_if([tally], [found], ops=[put(tally, encode(numbers)), *gone]):
                return len(gone)
        return 0

    def _forget(self, task_id: TaskId, end: ResultDocument, *, spec: KV | None) -> Op:
        space = self._space
        gone = [delete(space.key(kind, task_id)) for kind in ("tasks", "results", "errors", "payloads")]
        gone.append(delete(space.key("ended", end.state.tenant, end.state.status, task_id)))
        gone.append(delete_span(space.all("logs", task_id)))
        document = None if spec is None else read_spec(spec.value)
        if document is not None and document.key is not None:
            gone.append(delete(space.key("keys", document.tenant, document.key)))
        return together(gone)


def _marked(kv: KV) -> list[str]:
    """Version, status, worker and tenant, as `mark` has written them."""
    return kv.value.decode().split(" ", 3)


def _read_purged(found: KV | None) -> Purged:
    return {} if found is None else msgspec.json.decode(found.value, type=Purged)


def _add_purged(numbers: Purged, ends: Iterable[ResultDocument]) -> Purged:
    for end in ends:
        of_tenant = numbers.setdefault(end.state.tenant, {})
        of_tenant[end.state.status] = of_tenant.get(end.state.status, 0) + 1
    return numbers
