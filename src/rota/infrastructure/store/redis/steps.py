"""Steps of tasks as the script takes them: those that leave the same state for the same one are told together."""

from collections.abc import Iterator, Sequence

import msgspec

from rota.domain.audit import AuditEntry, entries_about
from rota.domain.ids import TenantId
from rota.domain.task import TaskState, TaskStatus, Transition
from rota.infrastructure.coordination.redis_client import Part
from rota.infrastructure.instants import to_us
from rota.infrastructure.store.redis.adding import count_field, place_of
from rota.infrastructure.store.redis.documents import MOVED, fence, moves_lines, record_line, state_line
from rota.infrastructure.store.redis.space import AT_ONCE, RedisSpace, spell

MOST_BYTES = 1 << 20  # in one call: results may be long, and everybody else waits for the script; texts stay short
_Shape = tuple[TenantId, TaskStatus, TaskStatus]
_Written = tuple[Transition, bytes, bytes]  # with its line, and its words if they are kept apart


class StepBatch:
    """Some steps and the audit about them, for one call of the script."""

    def __init__(self, space: RedisSpace, steps: Sequence[_Written]) -> None:
        self._space = space
        self._groups: dict[_Shape, list[_Written]] = {}
        for one in steps:
            before, after = one[0].before, one[0].after
            self._groups.setdefault((after.tenant_id, before.status, after.status), []).append(one)
        self._written = [one for group in self._groups.values() for one in group]  # in the order of the script
        self.steps = [step for step, _, _ in self._written]

    def call(self, audit: Sequence[AuditEntry]) -> tuple[list[str], list[Part]]:
        """The keys and the arguments."""
        space = self._space
        keys: dict[str, int] = {space.live: 1, space.counts: 2, space.ended_counts: 3}
        args = self._tell_apart(keys)
        parts = len(args) // 4
        for group in self._groups.values():
            args += self._tell(group, keys)
        kept: list[Part] = []
        for number, step in enumerate(self.steps, 1) if audit else ():
            for entry in entries_about(audit, [step.task_id]):
                place = _number(keys, space.audit(entry.tenant_id))
                kept += (number, place, spell(entry.id), msgspec.json.encode(entry))
        tasks = [space.task(step.task_id) for step in self.steps]
        return [*keys, *tasks], [len(keys), len(self._groups), parts, *args, *kept]

    def _tell_apart(self, keys: dict[str, int]) -> list[Part]:
        told: list[Part] = []
        for number, (step, _, words) in enumerate(self._written, 1):
            if words or moves_lines(step):
                place, version = _number(keys, self._space.record(step.task_id)), step.after.version
                told += (number, place, version, words) if words else ()
                told += (number, place, f"{MOVED}{version}", b"") if moves_lines(step) else ()
        return told

    def _tell(self, group: Sequence[_Written], keys: dict[str, int]) -> list[Part]:
        before, after = group[0][0].before, group[0][0].after
        left, entered, ends = self._place(before, keys), self._place(after, keys), after.status.is_final
        told: list[Part] = [len(group), left, entered, int(ends), count_field(before), count_field(after)]
        for step, line, _ in group:
            score = 0 if ends else to_us(step.after.due_at)
            told += (fence(step.before), state_line(step.after), line, spell(step.task_id), score)
        return told

    def _place(self, state: TaskState, keys: dict[str, int]) -> int:
        space = self._space
        is_ended = state.status.is_final
        key = space.ended(state.tenant_id, state.status) if is_ended else place_of(space, state)
        return 0 if key is None else _number(keys, key)


def cut_steps(space: RedisSpace, steps: Sequence[Transition]) -> Iterator[StepBatch]:
    """As many batches as it takes for each to be short."""
    part: list[_Written] = []
    size = 0
    for step in steps:
        line, words = record_line(step)
        own = len(line) + len(words)
        if part and (len(part) >= AT_ONCE or size + own > MOST_BYTES):
            yield StepBatch(space, part)
            part, size = [], 0
        part.append((step, line, words))
        size += own
    if part:
        yield StepBatch(space, part)


def _number(keys: dict[str, int], key: str) -> int:
    return keys.setdefault(key, len(keys) + 1)
