"""Finding tasks by filter: newest first, a stretch of ids after the other, each task looked at.

The ids come from as few sets as the filter allows: those of the types that are asked for, those of what has ended so,
or what goes on. Several sets are read at one moment, as a transaction, and merged: a task that ends meanwhile is in
one.
"""

from collections.abc import Awaitable, Callable, Sequence

from rota.domain.ids import MAX_ID, TaskId, first_id_at
from rota.domain.paging import Page, TaskFilter
from rota.domain.task import FINAL, LIVE, Task
from rota.infrastructure.coordination.redis_client import Part
from rota.infrastructure.store.redis.adding import find_stored
from rota.infrastructure.store.redis.documents import StoredTask
from rota.infrastructure.store.redis.space import RedisSpace, spell, to_id

LOOKED_AT = 200  # at least, so that a filter that few tasks match needs few trips

Complete = Callable[[RedisSpace, Sequence[StoredTask]], Awaitable[list[Task]]]


async def list_page(space: RedisSpace, wanted: TaskFilter, *, complete: Complete) -> Page[Task]:
    """A page of the tasks that match, and one more, which tells whether another page follows."""
    sources = _choose(space, wanted)
    below: int | None = _highest(wanted)
    found: list[StoredTask] = []
    while len(found) <= wanted.limit and below is not None:
        ids, below = await _scan(space, sources, wanted=wanted, below=below)
        found += [one for one in await find_stored(space, ids) if _matches(one, wanted)]
    page = found[: wanted.limit]
    tasks = await complete(space, page)
    return Page(tuple(tasks), next_before=page[-1].id if len(found) > wanted.limit else None)


def _choose(space: RedisSpace, wanted: TaskFilter) -> list[str]:
    """The sets that have every task that can match."""
    if wanted.types:
        return [space.of_type(wanted.tenant_id, task_type) for task_type in sorted(wanted.types)]
    statuses = wanted.statuses or LIVE | FINAL
    ended = [space.ended(wanted.tenant_id, status) for status in sorted(statuses & FINAL)]
    return [*ended, space.live] if statuses & LIVE else ended


def _highest(wanted: TaskFilter) -> int:
    """All ids to look at are below this."""
    below = [MAX_ID + 1]
    if wanted.before is not None:
        below.append(wanted.before)
    if wanted.created_before is not None:
        below.append(first_id_at(wanted.created_before))
    return min(below)


async def _scan(
    space: RedisSpace, sources: Sequence[str], *, wanted: TaskFilter, below: int
) -> tuple[list[TaskId], int | None]:
    """The next ids, newest first, and below which one to go on; None: there are no more."""
    least = 0 if wanted.created_after is None else first_id_at(wanted.created_after)
    count = max(wanted.limit + 1, LOOKED_AT)
    begin, end = "+" if below > MAX_ID else f"({spell(below)}", f"[{spell(least)}"
    asked: list[Sequence[Part]] = [("ZREVRANGEBYLEX", key, begin, end, "LIMIT", 0, count) for key in sources]
    found: list[list[bytes]] = await space.client.batch(asked, atomic=True)
    cut = [members[-1] for members in found if len(members) == count]  # there is more behind these
    lowest = max(cut, default=b"")
    members = sorted({member for some in found for member in some if member >= lowest}, reverse=True)
    return list(map(to_id, members)), to_id(lowest) if cut else None


def _matches(one: StoredTask, wanted: TaskFilter) -> bool:
    spec, state = one.spec, one.state
    return (
        spec.tenant == wanted.tenant_id
        and (not wanted.statuses or state.status in wanted.statuses)
        and (not wanted.types or spec.type in wanted.types)
        and (not wanted.priorities or state.priority in wanted.priorities)
        and (wanted.worker_id is None or state.worker_id == wanted.worker_id)
        and (wanted.text in spec.name or wanted.text in spec.type)
        and wanted.metadata.items() <= spec.metadata.items()
    )
