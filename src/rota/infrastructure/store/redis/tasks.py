"""Tasks in Redis: adding, advancing, finding, counting, purging.

A step is written by a script, under the condition that the text of its task begins with the fence that it started from.
A batch is one call of it; a long one is several in a row, each of whole steps, so that nobody else waits for long. What
is added is all or nothing, in one call.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime

from rota.application.ports.store import Added, Written
from rota.domain.audit import AuditEntry, check_subjects
from rota.domain.ids import MAX_ID, TaskId, TenantId, WorkerId, first_id_at
from rota.domain.paging import Page, TaskFilter, purge_limit
from rota.domain.submission import NewTask
from rota.domain.task import FINAL, PROCESSING, LiveTask, Task, TaskStatus, Transition, check_one_step_each
from rota.infrastructure.instants import to_us
from rota.infrastructure.store.redis.adding import TaskAdder, complete, find_stored, load_tasks
from rota.infrastructure.store.redis.documents import StoredTask, read_state
from rota.infrastructure.store.redis.listing import list_page
from rota.infrastructure.store.redis.space import RedisSpace, load_own_script, spell, to_id
from rota.infrastructure.store.redis.steps import StepBatch, cut_steps

PURGE_PART = 200


class RedisTaskStore:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space
        self._adder = TaskAdder(space)
        self._advance = load_own_script("advance")
        self._due = load_own_script("due")
        self._purge_tasks = load_own_script("purge_tasks")

    async def now(self) -> datetime:
        return await self._space.now()

    async def add(self, new: Sequence[NewTask]) -> list[Added]:
        return await self._adder.add(new) if new else []

    async def advance(self, steps: Sequence[Transition], *, audit: Sequence[AuditEntry] = ()) -> Written:
        check_one_step_each(steps)
        check_subjects(audit, [step.task_id for step in steps])
        if audit:
            await self._space.client.command("SADD", self._space.tenants, *{entry.tenant_id for entry in audit})
        others: list[tuple[Transition, bytes]] = []
        for batch in cut_steps(self._space, steps):
            others += await self._write(batch, audit)
        refused = frozenset(step.task_id for step, _ in others)
        repeated = frozenset(step.task_id for step, line in others if _is_repeat(step, line))
        applied = frozenset(step.task_id for step in steps) - refused
        return Written(applied, repeated, stale=refused - repeated)

    async def find(self, task_id: TaskId, tenant_id: TenantId) -> Task | None:
        task = (await self.load([task_id])).get(task_id)
        return task if task is not None and task.spec.tenant_id == tenant_id else None

    async def load(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        return await load_tasks(self._space, task_ids)

    async def find_by_keys(self, tenant_id: TenantId, keys: Collection[str]) -> dict[str, TaskId]:
        found = await self._adder.find_firsts([(tenant_id, key) for key in keys])
        return {key: task_id for (_, key), (task_id, _) in found.items()}

    async def find_live(self, task_ids: Sequence[TaskId]) -> list[LiveTask]:
        found = await find_stored(self._space, task_ids)
        return [one.to_live() for one in found if not one.state.status.is_final]

    async def list_live(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        found: list[LiveTask] = []
        begin = "-" if after is None else f"({spell(after)}"
        while (wanted := limit - len(found)) > 0:  # what ends between the two looks must not make a page look the last
            members = await self._space.client.command("ZRANGEBYLEX", self._space.live, begin, "+", "LIMIT", 0, wanted)
            found += await self._read_live(members)
            if len(members) < wanted:
                break
            begin = f"({members[-1].decode()}"
        return found

    async def list_due(self, limit: int) -> list[LiveTask]:
        return [one for one in await self._list_past(self._space.waiting, limit) if one.state.status.is_waiting]

    async def list_overdue(self, limit: int) -> list[LiveTask]:
        return [one for one in await self._list_past(self._space.running, limit) if _is_running(one)]

    async def list_held(self, worker_id: WorkerId) -> list[LiveTask]:
        running = await self._read_live(sorted(await self._list_running()))
        return [live for live in running if live.state.worker_id == worker_id and _is_running(live)]

    async def list_running(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        last, found = spell(after or 0).encode(), list[LiveTask]()
        running = sorted(one for one in await self._list_running() if one > last)
        for start in range(0, len(running), limit):
            found += [one for one in await self._read_live(running[start : start + limit]) if _is_running(one)]
            if len(found) >= limit:
                break
        return found[:limit]

    async def list_page(self, wanted: TaskFilter) -> Page[Task]:
        return await list_page(self._space, wanted, complete=complete)

    async def count_by_status(self, tenant_id: TenantId | None) -> dict[TaskStatus, int]:
        numbers = await self._count(self._space.counts, tenant_id)
        tenants = await self._space.tenant_ids() if tenant_id is None else [tenant_id]
        places = [(tenant, status) for tenant in tenants for status in sorted(FINAL)]
        found = await self._space.ask_each([("ZCARD", self._space.ended(*place)) for place in places])
        for (_, status), number in zip(places, found, strict=True):
            numbers[status] += number
        return {status: number for status, number in numbers.items() if number}

    async def count_ended(self, tenant_id: TenantId) -> dict[TaskStatus, int]:
        return dict(await self._count(self._space.ended_counts, tenant_id))

    async def purge(self, *, completed_before: datetime, limit: int) -> int:
        left, total, after = purge_limit(limit), 0, "-"
        while left > 0:
            page = await self._list_ended(after, before=first_id_at(completed_before) + 1)
            found = await find_stored(self._space, list(map(to_id, page)))
            purged = await self._purge([one for one in found if _ended_before(one, completed_before)][:left])
            total, left = total + purged, left - purged
            if len(page) < PURGE_PART:
                break
            after = f"({page[-1].decode()}"
        return total

    async def _write(self, batch: StepBatch, audit: Sequence[AuditEntry]) -> list[tuple[Transition, bytes]]:
        """Write a batch; the steps that were not applied, each with the line that says where its task stands."""
        keys, args = batch.call(audit)
        refused = await self._space.client.run(self._advance, keys=keys, args=args)
        numbers = zip(refused[::2], refused[1::2], strict=True)
        return [(batch.steps[number - 1], line) for number, line in numbers]

    async def _list_past(self, key: str, limit: int) -> list[LiveTask]:
        return await self._read_live(await self._space.client.run(self._due, keys=(key,), args=(limit,)))

    async def _list_running(self) -> list[bytes]:
        running: list[bytes] = await self._space.client.command("ZRANGE", self._space.running, 0, -1)
        return running

    async def _read_live(self, members: Sequence[bytes]) -> list[LiveTask]:
        return await self.find_live(list(map(to_id, members)))

    async def _count(self, key: str, tenant_id: TenantId | None) -> Counter[TaskStatus]:
        numbers: Counter[TaskStatus] = Counter()
        for field, number in (await self._space.read_hash(key)).items():
            tenant, _, status = field.rpartition(":")
            if tenant_id in (None, tenant):
                numbers[TaskStatus(status)] += int(number)
        return numbers

    async def _list_ended(self, after: str, *, before: int) -> list[bytes]:
        """The oldest tasks of all tenants that have ended, up to so many."""
        tenants = await self._space.tenant_ids()
        end = "+" if before > MAX_ID else f"({spell(before)}"
        keys = [self._space.ended(tenant, status) for tenant in tenants for status in sorted(FINAL)]
        found = await self._space.ask_each([("ZRANGEBYLEX", key, after, end, "LIMIT", 0, PURGE_PART) for key in keys])
        return sorted(member for members in found for member in members)[:PURGE_PART]

    async def _purge(self, old: Sequence[StoredTask]) -> int:
        if not old:
            return 0
        space, keys = self._space, list[str]()
        for one in old:
            payload, state, spec = space.payload(one.id), one.state, one.spec
            kept = payload if spec.key is None else space.idempotency(spec.tenant, spec.key)
            keys += (space.task(one.id), payload, space.record(one.id), space.lines(one.id))
            keys += (space.ended(spec.tenant, state.status), space.of_type(spec.tenant, spec.type), kept)
        return int(await space.client.run(self._purge_tasks, keys=keys, args=[spell(one.id) for one in old]))


def _is_repeat(step: Transition, line: bytes) -> bool:
    """Whether the task stands where this very step has led it; no line: there is no such task."""
    return bool(line) and read_state(step.task_id, line, tenant_id=step.after.tenant_id) == step.after


def _is_running(live: LiveTask) -> bool:
    return live.state.status is PROCESSING


def _ended_before(one: StoredTask, moment: datetime) -> bool:
    completed_at = one.state.completed_at
    return completed_at is not None and to_us(completed_at) < to_us(moment)
