"""Adding tasks, all or none.

The swift way expects what is usual: none of the ids and keys is known, which one transaction checks. When it is not
so, or when there are more of them than one transaction can check, the careful way looks first. It then writes each task
where it is still absent: ids are issued once, so what appears in between is this same batch, sent twice. (Only two
nodes that race for the same idempotency keys in batches of hundreds could each add the rest of theirs.)
"""

from collections.abc import Sequence

import msgspec

from rota.application.ports.store import Added
from rota.domain.audit import AuditEntry
from rota.domain.errors import IdempotencyMismatchError, IdTakenError, InvalidError
from rota.domain.ids import TaskId
from rota.domain.submission import NewTask
from rota.infrastructure.etcd.ops import MOST_BYTES, MOST_CONDITIONS, MOST_OPS, Op, cut, is_absent, size_of, when
from rota.infrastructure.store.etcd.audit import audit_ops
from rota.infrastructure.store.etcd.documents import LONG_PAYLOAD
from rota.infrastructure.store.etcd.records import load_tasks, new_task_ops, payload_ops
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, present

_First = tuple[TaskId, str]


class TaskAdder:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def add(self, new: Sequence[NewTask]) -> list[Added]:
        keys = self._keys(new)
        is_plain = len(keys) <= MOST_CONDITIONS and len(set(keys)) == len(keys)
        if is_plain and await self._write(new, is_checked=True):
            return [Added(item.task.id) for item in new]
        return await self._add_carefully(new)

    async def _add_carefully(self, new: Sequence[NewTask]) -> list[Added]:
        while True:
            firsts = await self._claim(new)
            owners = [item.task.id if item.key is None else firsts[self._key(item)][0] for item in new]
            own = {item.task.id: item for item, owner in zip(new, owners, strict=True) if owner == item.task.id}
            missing = await self._find_missing(list(own.values()))
            is_checked = len(self._keys(missing)) <= MOST_CONDITIONS
            if not missing or await self._write(missing, is_checked=is_checked):
                return [Added(owner, is_repeat=owner != item.task.id) for item, owner in zip(new, owners, strict=True)]

    async def _write(self, new: Sequence[NewTask], *, is_checked: bool) -> bool:
        """Write tasks that are absent; False when one was not. `is_checked`: then none is written."""
        apart, groups = LONG_PAYLOAD, [new_task_ops(self._space, item) for item in new]
        audit = list({entry.id: entry for item in new for entry in item.audit}.values())
        if _size(groups) > MOST_BYTES:
            apart, groups = 0, [new_task_ops(self._space, item, apart=0) for item in new]
        self._check_size(groups, audit)
        for parts in cut([op] for op in payload_ops(self._space, new, apart=apart)):
            await self._space.client.write([op for part in parts for op in part])
        kept = audit_ops(self._space, audit)
        if is_checked:
            absent = [is_absent(key) for key in self._keys(new)]
            return (await self._space.client.write([*(op for one in groups for op in one), *kept], when=absent)).is_met
        guarded = [
            when([is_absent(key) for key in self._keys([item])], ops) for item, ops in zip(new, groups, strict=True)
        ]
        answers = (await self._space.client.write([*guarded, *kept])).answers
        return all(answer.txn.succeeded for answer in answers[: len(guarded)])

    def _check_size(self, groups: Sequence[Sequence[Op]], audit: Sequence[AuditEntry]) -> None:
        number = len(groups) + len(audit)
        if _size(groups) > MOST_BYTES or number > MOST_OPS:
            problem = f"{len(groups)} at once are more than etcd takes in one transaction (1.4 MB, {MOST_OPS} tasks)"
            raise InvalidError("tasks", f"{problem}; send fewer at a time")

    def _keys(self, new: Sequence[NewTask]) -> list[str]:
        """What must be absent for these to be new."""
        ids = [self._space.key("tasks", item.task.id) for item in new]
        return [*ids, *(self._key(item) for item in new if item.key is not None)]

    def _key(self, item: NewTask) -> str:
        return self._space.key("keys", item.task.spec.tenant_id, item.key or "")

    async def _claim(self, new: Sequence[NewTask]) -> dict[str, _First]:
        """For each idempotency key in the batch, which task and digest it stands for."""
        keys = list(dict.fromkeys(self._key(item) for item in new if item.key is not None))
        found = zip(keys, await self._space.find_all(keys), strict=True)
        claimed = {key: _read_first(kv) for key, kv in found if kv is not None}
        for item in new:
            if item.key is not None:
                first = claimed.setdefault(self._key(item), (item.task.id, item.digest))
                if first[1] != item.digest:
                    raise IdempotencyMismatchError(item.key, first[0])
        return claimed

    async def _find_missing(self, own: Sequence[NewTask]) -> list[NewTask]:
        """Those that are not there yet; an id that stands for another task must never pass for a repeat."""
        specs = await self._space.find_all([self._space.key("tasks", item.task.id) for item in own])
        known = await load_tasks(self._space, present(specs))
        for item in own:
            if item.task.id in known and known[item.task.id].spec != item.task.spec:
                raise IdTakenError(item.task.id)
        return [item for item, spec in zip(own, specs, strict=True) if spec is None]


def _read_first(kv: KV) -> _First:
    task_id, digest = msgspec.json.decode(kv.value, type=tuple[str, str])
    return TaskId(int(task_id)), digest


def _size(groups: Sequence[Sequence[Op]]) -> int:
    return sum(size_of(group) + 100 for group in groups)  # and their conditions
