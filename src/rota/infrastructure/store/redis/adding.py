"""Adding tasks, all or none.

The swift way expects what is usual: none of the ids and keys is known, which the script checks that writes them. When
it is not so, the careful way looks first, and writes what is missing under the same condition.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from rota.application.ports.store import Added
from rota.domain.errors import IdTakenError
from rota.domain.ids import TaskId
from rota.domain.submission import First, NewTask, RequestKey, find_owners
from rota.domain.task import BLOCKED, PROCESSING, Task, TaskState
from rota.infrastructure.coordination.redis_client import Part
from rota.infrastructure.instants import to_us
from rota.infrastructure.store.redis.documents import StoredTask, is_apart, new_document
from rota.infrastructure.store.redis.space import LONG_AT_ONCE, Change, RedisSpace, spell


class TaskAdder:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space

    async def add(self, new: Sequence[NewTask]) -> list[Added]:
        keys = [self._key(item) for item in new if item.key is not None]
        is_plain = len(set(keys)) == len(keys) and len({item.task.id for item in new}) == len(new)
        if is_plain and await self._write(new):
            return [Added(item.task.id) for item in new]
        while True:
            firsts = await self.find_firsts([item.request_key for item in new if item.request_key is not None])
            owners = find_owners(new, firsts)
            own = {item.task.id: item for item, owner in zip(new, owners, strict=True) if owner == item.task.id}
            missing = await self._find_missing(list(own.values()))
            if not missing or await self._write(missing):
                return [Added(owner, is_repeat=owner != item.task.id) for item, owner in zip(new, owners, strict=True)]

    async def _write(self, new: Sequence[NewTask]) -> bool:
        """Write tasks that are absent; False when one was not."""
        keyed = [item for item in new if item.key is not None]
        change = Change().expect_none([self._key(item) for item in keyed])
        firsts = {self._key(item): f"{spell(item.task.id)} {item.digest}".encode() for item in keyed}
        change = insert(self._space, new, into=change).set_all(firsts)
        first = {entry.id: entry for item in reversed(new) for entry in reversed(item.audit)}
        return await self._space.commit(change.note(self._space, first.values()))

    def _key(self, item: NewTask) -> str:
        return self._space.idempotency(item.task.spec.tenant_id, item.key or "")

    async def find_firsts(self, keys: Collection[RequestKey]) -> dict[RequestKey, First]:
        """What those of these idempotency keys stand for that are known."""
        places = {key: self._space.idempotency(*key) for key in keys}
        found = zip(places, await self._space.find_texts(list(places.values())), strict=True)
        return {key: _read_first(text) for key, text in found if text is not None}

    async def _find_missing(self, own: Sequence[NewTask]) -> list[NewTask]:
        known = await find_known(self._space, [item.task for item in own])
        return [item for item in own if item.task.id not in known]


def insert(space: RedisSpace, new: Sequence[NewTask], *, into: Change) -> Change:
    """What adds tasks of which none may be there yet."""
    tasks = [item.task for item in new]
    keys = [space.task(task.id) for task in tasks]
    into.expect_none(keys).set_all(dict(zip(keys, map(new_document, new), strict=True)))
    into.set_all({space.payload(one.id): one.spec.payload.encode() for one in tasks if is_apart(one.spec)})
    sets: dict[str, list[Part]] = {}
    for one in tasks:
        member, place = spell(one.id), place_of(space, one.state)
        sets.setdefault(space.live, []).extend((0, member))
        sets.setdefault(space.of_type(one.spec.tenant_id, one.spec.type), []).extend((0, member))
        if place is not None:
            sets.setdefault(place, []).extend((to_us(one.state.due_at), member))
    for key, scored in sets.items():
        into.write("ZADD", key, *scored)
    for field, number in Counter(count_field(one.state) for one in tasks).items():
        into.write("HINCRBY", space.counts, field, number)
    return into.write("SADD", space.tenants, *sorted({one.spec.tenant_id for one in tasks}))


async def find_known(space: RedisSpace, tasks: Sequence[Task]) -> dict[TaskId, Task]:
    """Those that are there already; an id that stands for another task must never pass for a repeat."""
    known = await load_tasks(space, [task.id for task in tasks])
    for task in tasks:
        if task.id in known and known[task.id].spec != task.spec:
            raise IdTakenError(task.id)
    return known


async def find_stored(space: RedisSpace, task_ids: Sequence[TaskId]) -> list[StoredTask]:
    """Those of the tasks that exist, in the order asked."""
    found = zip(task_ids, await space.find_texts([space.task(one) for one in task_ids]), strict=True)
    return [StoredTask(task_id, text) for task_id, text in found if text is not None]


async def load_tasks(space: RedisSpace, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
    return {task.id: task for task in await complete(space, await find_stored(space, task_ids))}


async def complete(space: RedisSpace, stored: Sequence[StoredTask]) -> list[Task]:
    """Whole tasks, with what is kept apart of them."""
    long = [one.id for one in stored if one.spec.payload is None]
    found = await space.find_texts([space.payload(one) for one in long], at_once=LONG_AT_ONCE)
    payloads = dict(zip(long, found, strict=True))
    places = {one.id: version for one in stored if (version := one.wordless) is not None}
    asked = [("HGET", space.record(task_id), version) for task_id, version in places.items()]
    words = dict(zip(places, await space.ask_each(asked, at_once=LONG_AT_ONCE), strict=True))
    return [one.to_task(payloads.get(one.id), words.get(one.id)) for one in stored]


def place_of(space: RedisSpace, state: TaskState) -> str | None:
    """Which of the sets by due time a task that has not ended is in."""
    return None if state.status is BLOCKED else space.running if state.status is PROCESSING else space.waiting


def count_field(state: TaskState) -> str:
    return f"{state.tenant_id}:{state.status}"


def _read_first(text: bytes) -> First:
    task_id, _, digest = text.decode().partition(" ")
    return TaskId(int(task_id)), digest
