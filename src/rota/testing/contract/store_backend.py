"""What a backend brings to be tested, and what the tests build."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from msgspec.structs import replace

from rota.application.ports.store import Store, Written
from rota.domain.attempt import TaskError, TaskResult
from rota.domain.ids import DEFAULT_TENANT, NodeId, TaskId, TenantId, WorkerId, next_id
from rota.domain.submission import NewTask
from rota.domain.task import PENDING, Task, TaskSpec, TaskState, Transition

MICROSECOND = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
NOON = datetime(2024, 5, 17, 12, 0, 0, 123_457, tzinfo=UTC)  # long past for every store; odd to the microsecond

NODE_A, NODE_B, NODE_C = NodeId("node-a"), NodeId("node-b"), NodeId("node-c")
WORKER_1, WORKER_2 = WorkerId(7_100_000_000_000_000_001), WorkerId(7_100_000_000_000_000_002)  # beyond 2^53
OTHER_TENANT = TenantId("other")
REPORT = "report"
MANY = 2_500
HUGE = 10**30  # more than a database can count

AWKWARD_TEXTS = (
    "你好世界 🌍👩‍🚀",
    'it\'s "quoted", `so` to say',
    "100%_sure %s %(name)s :now {ids} $1 ?",
    "back\\slash \\' \\u0000",
    " spaces around ",
    "tab\tline\nreturn\r\nend",
    "Ωλ ﬁ é e\u0301 ‮rtl‬ \U0010ffff",
)


class StoreBackend(Protocol):
    """One store's data, empty when a test gets it, and power over its time."""

    @property
    def tick(self) -> timedelta:
        """The shortest lease that this backend keeps reliably on a busy machine."""
        ...

    async def connect(self) -> Store:
        """One more node's view of the data. The backend closes it after the test."""
        ...

    async def wait(self, duration: timedelta) -> None:
        """Let time pass: advance the virtual clock that the backend runs on, or really wait."""
        ...


def make_ids(count: int, *, at: datetime = NOON, slot: int = 1) -> list[TaskId]:
    """Ids as one node issues them from this moment on."""
    ids: list[TaskId] = []
    for _ in range(count):
        ids.append(TaskId(next_id(ids[-1] if ids else 0, now=at, slot=slot)))
    return ids


def make_task(task_id: TaskId, *, state: dict[str, Any] | None = None, **spec: Any) -> Task:
    """A task that waits and is due; `state` sets fields of its state, other keywords those of its spec."""
    asked = replace(TaskSpec(id=task_id, type=REPORT, created_at=NOON), **spec)
    waiting = TaskState(id=task_id, tenant_id=asked.tenant_id, status=PENDING, due_at=NOON)
    return Task(spec=asked, state=replace(waiting, **(state or {})))


def make_tasks(count: int, *, at: datetime = NOON, state: dict[str, Any] | None = None, **spec: Any) -> list[Task]:
    return [make_task(task_id, state=state, **spec) for task_id in make_ids(count, at=at)]


async def add(store: Store, tasks: Iterable[Task]) -> list[Task]:
    """Add tasks without keys."""
    new = list(tasks)
    await store.tasks.add([NewTask(task) for task in new])
    return new


async def add_one(store: Store, *, state: dict[str, Any] | None = None, **spec: Any) -> Task:
    return (await add(store, make_tasks(1, state=state, **spec)))[0]


async def add_each(store: Store, specs: Iterable[dict[str, Any]]) -> list[Task]:
    """One task for each spec, in the order of their ids."""
    asked = list(specs)
    tasks = [make_task(task_id, **spec) for task_id, spec in zip(make_ids(len(asked)), asked, strict=True)]
    return await add(store, tasks)


async def write(store: Store, tasks: Sequence[Task], *, steps: Sequence[Transition]) -> list[Task]:
    """Write one lawful step of each task, and say how the tasks stand then by the rules of the domain."""
    expected = Written(applied=frozenset(step.task_id for step in steps))
    assert await store.tasks.advance(steps) == expected
    return [task.after(step) for task, step in zip(tasks, steps, strict=True)]


async def grant(store: Store, tasks: Sequence[Task], *, worker_id: WorkerId = WORKER_1, term: int = 1) -> list[Task]:
    return await write(store, tasks, steps=[grant_step(task, worker_id=worker_id, term=term) for task in tasks])


async def grant_one(store: Store, **spec: Any) -> Task:
    """A task that a worker is running."""
    return (await grant(store, [await add_one(store, **spec)]))[0]


async def end(store: Store, tasks: Sequence[Task], *, at: datetime = NOON + MINUTE) -> list[Task]:
    """Let running tasks succeed."""
    return await write(store, tasks, steps=[success_step(task, at=at) for task in tasks])


def grant_step(task: Task, *, worker_id: WorkerId = WORKER_1, term: int = 1, at: datetime | None = None) -> Transition:
    """Grant the next attempt, at the moment when the task is due if no other is given."""
    return task.state.granted(worker_id, term=term, at=at or task.state.due_at, timeout=task.spec.timeout)


def success_step(task: Task, *, data: str | None = None, at: datetime = NOON + MINUTE) -> Transition:
    return task.state.succeeded(TaskResult(data=data), at=at)


def retry_step(task: Task, *, at: datetime = NOON + MINUTE) -> Transition:
    return task.state.retried(make_error(), at=at, due_at=at + MINUTE)


def cancel_step(task: Task, reason: str = "not needed any more", *, at: datetime = NOON + MINUTE) -> Transition:
    return task.state.cancelled(reason, at=at)


def make_error(code: str = "boom", **changes: Any) -> TaskError:
    return replace(TaskError(code, "it did not work", "Traceback: line 1"), **changes)


async def find(store: Store, task: Task) -> Task | None:
    """The task as the store has it now."""
    return await store.tasks.find(task.id, task.spec.tenant_id)


async def list_all_ids(store: Store, tenant_id: TenantId = DEFAULT_TENANT) -> set[TaskId]:
    """Every task of a tenant that is live, by the store's word."""
    live = await store.tasks.list_live(after=None, limit=10_000)
    return {task.id for task in live if task.state.tenant_id == tenant_id}


def ids_of(tasks: Iterable[Task]) -> list[TaskId]:
    return [task.id for task in tasks]
