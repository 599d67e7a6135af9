"""Finding tasks by filter: newest first, a stretch of time after the other, each task looked at."""

from collections.abc import Awaitable, Callable, Sequence

from rota.domain.ids import MAX_ID, TaskId, first_id_at
from rota.domain.paging import Page, TaskFilter
from rota.domain.task import LIVE, Task
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, id_of, present
from rota.infrastructure.store.spec_documents import read_spec

LOOKED_AT = 200  # at least, so that a filter that few tasks match needs few trips

Load = Callable[[EtcdSpace, Sequence[KV]], Awaitable[dict[TaskId, Task]]]


async def list_page(space: EtcdSpace, wanted: TaskFilter, *, load: Load) -> Page[Task]:
    """A page of the tasks that match, and one more, which tells whether another page follows."""
    kind = "live" if wanted.statuses and wanted.statuses <= LIVE else "tasks"
    below, least = _range(wanted)
    found: list[Task] = []
    while len(found) <= wanted.limit and below > least:
        needed = max(wanted.limit + 1 - len(found), LOOKED_AT)
        kvs, below = await space.scan_newest(kind, below=below, least=least, needed=needed)
        for start in range(0, len(kvs), needed):
            found += await _match(space, kvs[start : start + needed], wanted=wanted, load=load)
            if len(found) > wanted.limit:
                break
    page = tuple(found[: wanted.limit])
    return Page(page, next_before=page[-1].id if len(found) > wanted.limit else None)


async def _match(space: EtcdSpace, kvs: Sequence[KV], *, wanted: TaskFilter, load: Load) -> list[Task]:
    specs = kvs
    if kvs and b"/live/" in kvs[0].key:
        specs = present(await space.find_all([space.key("tasks", id_of(kv)) for kv in kvs]))
    fitting = [kv for kv in specs if _is_asked_for(kv, wanted)]
    tasks = await load(space, fitting)
    return [task for kv in fitting if (task := tasks.get(id_of(kv))) is not None and _stands_so(task, wanted)]


def _range(wanted: TaskFilter) -> tuple[int, int]:
    """The ids to look at: below the first, down to the second."""
    below = [MAX_ID + 1]
    if wanted.before is not None:
        below.append(wanted.before)
    if wanted.created_before is not None:
        below.append(first_id_at(wanted.created_before))
    return min(below), 0 if wanted.created_after is None else first_id_at(wanted.created_after)


def _is_asked_for(kv: KV, wanted: TaskFilter) -> bool:
    spec = read_spec(kv.value)
    return (
        spec.tenant == wanted.tenant_id
        and (not wanted.types or spec.type in wanted.types)
        and (wanted.text in spec.name or wanted.text in spec.type)
        and wanted.metadata.items() <= spec.metadata.items()
    )


def _stands_so(task: Task, wanted: TaskFilter) -> bool:
    state = task.state
    return (
        (not wanted.statuses or state.status in wanted.statuses)
        and (not wanted.priorities or state.priority in wanted.priorities)
        and (wanted.worker_id is None or state.worker_id == wanted.worker_id)
    )
