"""Adding tasks, all or none.

The swift way expects what is usual: none of the ids and keys is known, which one transaction checks. Ids of a batch
follow each other, so that few conditions are enough for many of them. When it is not so, or when there is more than one
transaction can check or hold, the careful way looks first. Then a key of the batch itself is the condition: what was
sent twice is written once. (Only two nodes that race for the same idempotency keys in batches of more than sixty could
each add the rest of theirs.)

What does not fit one request is brought before the transaction that makes it count: payloads, and then all that was
asked for. Without the key that says where it stands a task is none, for whoever looks. Until that transaction lets it
stay it is bound to a lease: where the transaction fails, or nobody is left to make it, it goes by itself.
"""

import hashlib
from collections.abc import Collection, Sequence

import msgspec

from rota.application.ports.store import Added
from rota.domain.errors import IdTakenError, InvalidError
from rota.domain.ids import TaskId
from rota.domain.submission import First, NewTask, RequestKey, find_owners
from rota.infrastructure.etcd.client import LeaseGoneError
from rota.infrastructure.etcd.ops import (
    MOST_BYTES,
    MOST_CONDITIONS,
    MOST_LEAF,
    MOST_OPS,
    Condition,
    Op,
    is_absent,
    is_empty,
    put,
    size_of,
    together,
    when,
)
from rota.infrastructure.store.etcd.audit import audit_ops
from rota.infrastructure.store.etcd.nodes import delete_unchanged
from rota.infrastructure.store.etcd.records import BATCH_KEPT, bring, lay_out, load_tasks
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, runs_of


class TaskAdder:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def add(self, new: Sequence[NewTask]) -> list[Added]:
        keys = self._keys(new)
        is_plain = len(set(keys)) == len(keys) and len(self._conditions(new)) <= MOST_CONDITIONS
        if is_plain and await self._write(new, is_looked_up=False):
            return [Added(item.task.id) for item in new]
        while True:
            firsts = await self.find_firsts([item.request_key for item in new if item.request_key is not None])
            owners = find_owners(new, firsts)
            own = {item.task.id: item for item, owner in zip(new, owners, strict=True) if owner == item.task.id}
            missing = await self._find_missing(list(own.values()))
            if not missing or await self._write(missing):
                return [Added(owner, is_repeat=owner != item.task.id) for item, owner in zip(new, owners, strict=True)]

    async def _write(self, new: Sequence[NewTask], *, is_looked_up: bool = True) -> bool:
        """Write tasks that are absent; False when one was not, or when nobody looked and one would be overwritten."""
        layout = lay_out(self._space, new, fits=_fits)
        groups = layout.groups
        if not _fits(groups):
            problem = f"{len(new)} at once are more than etcd takes in one transaction; send fewer at a time"
            raise InvalidError("tasks", problem)
        if layout.has_specs_before and not is_looked_up:
            return False
        kept = audit_ops(self._space, [entry for item in new for entry in item.audit])
        conditions = self._conditions(new)
        is_checked = len(conditions) <= MOST_CONDITIONS and not layout.has_specs_before
        if not await bring(self._space, layout.before, conditions=conditions if is_checked else ()):
            return False
        if is_checked:
            ops = [op for group in groups for op in group]
            if len(ops) + len(kept) > MOST_OPS:  # all but the first, by which an etcd that is full knows that it is one
                ops = [*groups[0], *self._gather(new[1:], groups[1:])]
            return (await self._space.client.write([*ops, *kept], when=conditions)).is_met
        return await self._write_many(new, [*self._gather(new, groups), *kept])

    async def _write_many(self, new: Sequence[NewTask], ops: Sequence[Op]) -> bool:
        ids = ",".join(str(item.task.id) for item in new)
        batch = self._space.key("batches", hashlib.sha256(ids.encode()).hexdigest())
        lease = await self._space.client.grant(BATCH_KEPT)
        try:
            done = await self._space.client.write([*ops, put(batch, lease=lease)], when=[is_absent(batch)])
        except LeaseGoneError:
            return False
        return done.is_met and all(answer.txn.succeeded for answer in done.answers[:-1])

    def _gather(self, new: Sequence[NewTask], groups: Sequence[Sequence[Op]]) -> list[Op]:
        """As few operations as possible: those of a task with a key have a condition, others may share one."""
        gathered: list[Op] = []
        shared: list[Op] = []
        for item, group in zip(new, groups, strict=True):
            if item.key is not None:
                gathered.append(when([is_absent(self._key(item))], group))
                continue
            if len(shared) + len(group) > MOST_LEAF:
                gathered.append(together(shared))
                shared = []
            shared += group
        return [*gathered, *([together(shared)] if shared else [])]

    def _keys(self, new: Sequence[NewTask]) -> list[str]:
        """What must be absent for these to be new."""
        ids = [self._space.key("tasks", item.task.id) for item in new]
        return [*ids, *(self._key(item) for item in new if item.key is not None)]

    def _conditions(self, new: Sequence[NewTask]) -> list[Condition]:
        """The same in as few conditions as it takes."""
        ids = [
            self._space.ids_from("tasks", first, before=last + 1)
            for first, last in runs_of(item.task.id for item in new)
        ]
        return [*map(is_empty, ids), *(is_absent(self._key(item)) for item in new if item.key is not None)]

    def _key(self, item: NewTask) -> str:
        return self._space.key("keys", item.task.spec.tenant_id, item.key or "")

    async def find_firsts(self, keys: Collection[RequestKey]) -> dict[RequestKey, First]:
        """What those of these idempotency keys stand for that are known."""
        places = {key: self._space.key("keys", *key) for key in keys}
        found = zip(places, await self._space.find_all(list(places.values())), strict=True)
        return {key: _read_first(kv) for key, kv in found if kv is not None}

    async def _find_missing(self, own: Sequence[NewTask]) -> list[NewTask]:
        """Those that are not there yet; an id that stands for another task must never pass for a repeat."""
        [specs] = await self._space.find_ids(["tasks"], [item.task.id for item in own])
        known = await load_tasks(self._space, list(specs.values()))
        for item in own:
            if item.task.id in known and known[item.task.id].spec != item.task.spec:
                raise IdTakenError(item.task.id)
        of_a_batch_cut_short = [kv for task_id, kv in specs.items() if task_id not in known]
        await delete_unchanged(self._space, of_a_batch_cut_short)
        return [item for item in own if item.task.id not in known]


def _read_first(kv: KV) -> First:
    task_id, digest = msgspec.json.decode(kv.value, type=tuple[str, str])
    return TaskId(int(task_id)), digest


def _fits(groups: Sequence[Sequence[Op]]) -> bool:
    conditions = 150 * sum(len(group) > 3 for group in groups)  # of those with keys
    return sum(map(size_of, groups)) + conditions <= MOST_BYTES and len(groups) <= (MOST_OPS - MOST_LEAF) * 2
