"""Where the documents of a task are, how those of a new one are written, and how a whole task is read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rota.domain.ids import TaskId
from rota.domain.log import LogEntry
from rota.domain.submission import NewTask
from rota.domain.task import PROCESSING, Task, TaskState
from rota.infrastructure.etcd.ops import Condition, Op, cut, put
from rota.infrastructure.instants import to_us
from rota.infrastructure.store.etcd.documents import (
    encode,
    mark,
    place_in_time,
    read_state,
    state_document,
    to_task,
)
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, id_of, spell, spell_time
from rota.infrastructure.store.spec_documents import LONG_PAYLOAD, read_spec, to_spec, write_spec

MOST_LONG = 128  # documents in one answer that may be as long as a payload: 32 MiB
Place = tuple[str, TaskId]  # the kind of a document, and whose it is


def due_key(space: EtcdSpace, state: TaskState) -> str:
    return f"{space.key('due', place_in_time(state))}/{spell_time(to_us(state.due_at))}_{spell(state.id)}"


def log_key(space: EtcdSpace, entry: LogEntry) -> str:
    return space.key("logs", entry.task_id, entry.seq)


def new_task_ops(space: EtcdSpace, new: NewTask, *, apart: int = LONG_PAYLOAD) -> list[Op]:
    """The documents of a new task; its payload is not among them if it is longer than that (`payload_ops`)."""
    state = new.task.state
    is_apart = len(new.task.spec.payload) > apart
    ops = [
        put(space.key("tasks", state.id), write_spec(new, is_apart=is_apart)),
        put(space.key("live", state.id), encode(state_document(state))),
        put(due_key(space, state), mark(state)),
    ]
    if new.key is not None:
        first = encode((str(state.id), new.digest))
        ops.append(put(space.key("keys", state.tenant_id, new.key), first))
    return ops


def payload_ops(space: EtcdSpace, new: Sequence[NewTask], *, apart: int = LONG_PAYLOAD) -> list[Op]:
    """The payloads that are kept apart. Without its task one means nothing, so they are written first."""
    specs = [item.task.spec for item in new if len(item.task.spec.payload) > apart]
    return [put(space.key("payloads", spec.id), spec.payload.encode()) for spec in specs]


@dataclass(frozen=True, slots=True)
class Layout:
    """What to write before a transaction, and what for each task in it."""

    before: Sequence[Op]
    groups: Sequence[Sequence[Op]]
    has_specs_before: bool = False  # then a task's spec is there before the task is


def lay_out(space: EtcdSpace, new: Sequence[NewTask], *, fits: Callable[[Sequence[Sequence[Op]]], bool]) -> Layout:
    """With no more before than it takes for the rest to fit. The shortest may not fit either."""
    groups = [new_task_ops(space, item) for item in new]
    if fits(groups):
        return Layout(payload_ops(space, new), groups)
    groups = [new_task_ops(space, item, apart=0) for item in new]
    payloads = payload_ops(space, new, apart=0)
    if fits(groups):
        return Layout(payloads, groups)
    return Layout([*payloads, *(spec for spec, *_ in groups)], [rest for _, *rest in groups], has_specs_before=True)


async def bring(space: EtcdSpace, before: Sequence[Op], *, when: Sequence[Condition]) -> bool:
    """Write what comes before a transaction, while the conditions of that are met: else it would stay for nothing."""
    for parts in cut([op] for op in before):
        if not (await space.client.write([op for part in parts for op in part], when=when)).is_met:
            return False
    return True


async def load_tasks(space: EtcdSpace, specs: Sequence[KV]) -> dict[TaskId, Task]:
    """Whole tasks, from what was asked of them and all else that there is."""
    [lives] = await space.find_ids(["live"], map(id_of, specs))
    return await complete_tasks(space, {id_of(kv): kv for kv in specs}, lives=lives)


async def complete_tasks(
    space: EtcdSpace, specs: Mapping[TaskId, KV], *, lives: Mapping[TaskId, KV]
) -> dict[TaskId, Task]:
    """Whole tasks, from what was asked of them, where they stand unless they have ended, and what else they need: how
    they ended, their last error if there can be one, their payload if it is long. Hardly any that lives needs more."""
    documents = {task_id: read_spec(spec.value) for task_id, spec in specs.items()}
    states = {task_id: read_state(lives[task_id]) if task_id in lives else None for task_id in specs}
    ended = [task_id for task_id, state in states.items() if state is None]
    tried = [task_id for task_id, state in states.items() if state is None or _was_tried(state)]
    long = [task_id for task_id, document in documents.items() if document.payload is None]
    kinds = {"results": ended, "errors": tried, "payloads": long}
    rest = await _find_rest(space, [(kind, task_id) for kind, task_ids in kinds.items() for task_id in task_ids])
    tasks: dict[TaskId, Task] = {}
    for task_id, document in documents.items():
        payload = rest.get(("payloads", task_id))
        spec = to_spec(task_id, document, apart=None if payload is None else payload.value)
        result, error = rest.get(("results", task_id)), rest.get(("errors", task_id))
        if (task := to_task(spec, state=states[task_id], result=result, error=error)) is not None:
            tasks[task_id] = task
    return tasks


async def _find_rest(space: EtcdSpace, places: Sequence[Place]) -> dict[Place, KV | None]:
    found: dict[Place, KV | None] = {}
    for start in range(0, len(places), MOST_LONG):
        some = places[start : start + MOST_LONG]
        found |= zip(some, await space.find_all([space.key(*place) for place in some]), strict=True)
    return found


def _was_tried(state: TaskState) -> bool:
    """Whether an attempt has ended: only then there may be an error."""
    return state.attempt > (1 if state.status is PROCESSING else 0)
