"""Where the documents of a task are, how those of a new one are written, and how a whole task is read."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from rota.domain.ids import TaskId
from rota.domain.log import LogEntry
from rota.domain.submission import NewTask
from rota.domain.task import PROCESSING, Task, TaskState
from rota.infrastructure.etcd.client import LeaseGoneError
from rota.infrastructure.etcd.ops import Condition, Op, cut, is_absent, keep, put, when
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
SPECS, PAYLOADS = "tasks", "payloads"
BATCH_KEPT = timedelta(hours=1)  # what serves a request: longer than any is on its way
Place = tuple[str, TaskId]  # the kind of a document, and whose it is


def due_key(space: EtcdSpace, state: TaskState) -> str:
    return f"{space.key('due', place_in_time(state))}/{spell_time(to_us(state.due_at))}_{spell(state.id)}"


def log_key(space: EtcdSpace, entry: LogEntry) -> str:
    return space.key("logs", entry.task_id, entry.seq)


@dataclass(frozen=True, slots=True)
class Document:
    """A part of what was asked for with a new task."""

    kind: str
    task_id: TaskId
    value: bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """What to write before a transaction, and what for each task in it."""

    before: Sequence[Document]
    groups: Sequence[Sequence[Op]]
    has_specs_before: bool = False  # then a task's spec is there before the task is


def lay_out(space: EtcdSpace, new: Sequence[NewTask], *, fits: Callable[[Sequence[Sequence[Op]]], bool]) -> Layout:
    """With no more before than it takes for the rest to fit: nothing, long payloads, or all that was asked for. The
    rest may not fit even then."""
    early: tuple[str, ...]
    for early in ((), (PAYLOADS,)):
        groups = [_new_task_ops(space, item, early=early) for item in new]
        if fits(groups):
            return Layout(_list_early(new, early), groups)
    early = (PAYLOADS, SPECS)  # in this order: without its task a payload means nothing
    groups = [_new_task_ops(space, item, early=early) for item in new]
    return Layout(_list_early(new, early), groups, has_specs_before=True)


async def bring(space: EtcdSpace, before: Sequence[Document], *, conditions: Sequence[Condition]) -> bool:
    """Write what comes before a transaction, while the conditions of that are met.

    It goes by itself, with a lease, unless the transaction lets it stay: else it would be there for ever where that
    fails. What belongs to a task that is there already, because another was faster with the same, is left alone."""
    if not before:
        return True
    lease = await space.client.grant(BATCH_KEPT)
    ops = [when(_has_no_task(space, one), [_bring(space, one, lease=lease)]) for one in before]
    try:
        for parts in cut([op] for op in ops):
            if not (await space.client.write([op for part in parts for op in part], when=conditions)).is_met:
                return False
    except LeaseGoneError:
        return False
    return True


def _new_task_ops(space: EtcdSpace, new: NewTask, *, early: Collection[str]) -> list[Op]:
    """What makes a task of what was asked for; that part of it which was brought early stays from now on."""
    state = new.task.state
    ops = [
        keep(space.key(one.kind, state.id)) if one.kind in early else put(space.key(one.kind, state.id), one.value)
        for one in _list_documents(new)
    ]
    ops += [
        put(space.key("live", state.id), encode(state_document(state))),
        put(due_key(space, state), mark(state)),
    ]
    if new.key is not None:
        first = encode((str(state.id), new.digest))
        ops.append(put(space.key("keys", state.tenant_id, new.key), first))
    return ops


def _list_early(new: Sequence[NewTask], early: Sequence[str]) -> list[Document]:
    return [one for kind in early for item in new for one in _list_documents(item) if one.kind == kind]


def _list_documents(new: NewTask) -> list[Document]:
    spec = new.task.spec
    is_apart = len(spec.payload) > LONG_PAYLOAD
    documents = [Document(SPECS, spec.id, write_spec(new, is_apart=is_apart))]
    if is_apart:
        documents.append(Document(PAYLOADS, spec.id, spec.payload.encode()))
    return documents


def _bring(space: EtcdSpace, document: Document, *, lease: int) -> Op:
    return put(space.key(document.kind, document.task_id), document.value, lease=lease)


def _has_no_task(space: EtcdSpace, document: Document) -> list[Condition]:
    """It has neither begun nor ended."""
    return [is_absent(space.key(kind, document.task_id)) for kind in ("live", "results")]


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
