"""What reports are made of, in etcd.

The sums of all tenants are in the order of their time, which is how they are read and how they go; each report passes
those of other tenants. Only who moves the progress writes sums, so they need no condition of their own.
"""

from collections.abc import Collection, Sequence

import msgspec

from rota.application.ports.report import MOST_ROLLUPS, Place, Rollup, RollupRange
from rota.domain.ids import TaskId
from rota.domain.paging import purge_limit
from rota.domain.rollup import Grain, LeftBehind, Progress, RollupKey, Step, TaskFacts
from rota.domain.task import Task
from rota.infrastructure.etcd.ops import Span, delete, put
from rota.infrastructure.store.etcd.documents import read_state, to_task
from rota.infrastructure.store.etcd.nodes import delete_unchanged
from rota.infrastructure.store.etcd.records import MOST_LONG
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, id_of, name_of, tenant_of
from rota.infrastructure.store.report_documents import facts_of, read_figures, read_ids, write_figures, write_ids
from rota.infrastructure.store.spec_documents import read_spec, to_spec

ROLLUPS, LEFT = "rollups", "report_left"
_PROGRESS = msgspec.json.Decoder(Progress)


class EtcdReportStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space
        self._key = space.key("report_progress")

    async def find_progress(self) -> Progress:
        return _read_progress(await self._space.find(self._key))

    async def list_facts(self, *, after: int, before: int, limit: int) -> list[TaskFacts]:
        facts: list[TaskFacts] = []
        while (needed := limit - len(facts)) > 0:
            specs = await self._space.scan(self._space.ids_from("tasks", after + 1, before=before), needed)
            facts += await self._complete(specs)
            if len(specs) < needed:
                break
            after = id_of(specs[-1])
        return facts

    async def load_facts(self, task_ids: Collection[TaskId]) -> list[TaskFacts]:
        [specs] = await self._space.find_ids(["tasks"], task_ids)
        return await self._complete([specs[one] for one in task_ids if one in specs])

    async def list_live_ids(self, *, after: int, upto: int, limit: int) -> list[TaskId]:
        return [
            id_of(kv) for kv in await self._space.scan(self._space.ids_from("live", after + 1, before=upto + 1), limit)
        ]

    async def list_left(self, *, after: int, limit: int) -> list[LeftBehind]:
        found = await self._space.scan(self._space.ids_from(LEFT, after + 1), limit)
        return [LeftBehind(id_of(kv), read_ids(kv.value)) for kv in found]

    async def roll_up(self, step: Step) -> bool:
        keys = list(step.added)
        progress, *known = await self._space.find_all([self._key, *(self._rollup_key(key) for key in keys)])
        if _read_progress(progress) != step.before:
            return False
        ops = [put(self._key, msgspec.json.encode(step.after))]
        for key, found in zip(keys, known, strict=True):
            figures = step.added[key]
            if found is not None:
                (figures := read_figures(found.value)).merge(step.added[key])
            ops.append(put(self._rollup_key(key), write_figures(figures)))
        for first, ids in step.left.items():
            place = self._space.key(LEFT, first)
            ops.append(put(place, write_ids(ids)) if ids else delete(place))
        return await self._space.write_if([self._key], [progress], ops=ops)

    async def list_rollups(self, wanted: RollupRange, *, after: Place | None = None) -> Sequence[Rollup]:
        begin = wanted.begin_us if after is None else after[0]
        start = self._space.key(ROLLUPS, wanted.grain, begin).encode()
        span = Span(start, self._space.key(ROLLUPS, wanted.grain, wanted.end_us).encode())
        found = [_read_rollup(kv) for kv in await self._space.scan(span) if tenant_of(kv) == wanted.tenant_id]
        fitting = [one for one in found if not wanted.types or one.type in wanted.types]
        fitting.sort(key=lambda one: one[:2])  # a name is spelled in a key as it must be, not as it is sorted
        return [one for one in fitting if after is None or one[:2] > after][:MOST_ROLLUPS]

    async def purge(self, grain: Grain, *, before_us: int, limit: int) -> int:
        span = Span(self._space.key(ROLLUPS, grain, 0).encode(), self._space.key(ROLLUPS, grain, before_us).encode())
        return await delete_unchanged(self._space, await self._space.scan(span, purge_limit(limit)))

    def _rollup_key(self, key: RollupKey) -> str:
        return self._space.key(ROLLUPS, key.grain, key.start_us, key.tenant_id, key.type)

    async def _complete(self, specs: Sequence[KV]) -> list[TaskFacts]:
        """With how they ended, if they have. What neither lives nor has ended is no task: it was brought for one that
        never came (`adding.py`)."""
        facts: list[TaskFacts] = []
        for start in range(0, len(specs), MOST_LONG):
            some = specs[start : start + MOST_LONG]
            results, lives = await self._space.find_ids(["results", "live"], map(id_of, some))
            for kv in some:
                task = _read_task(kv, live=lives.get(id_of(kv)), result=results.get(id_of(kv)))
                facts += [] if task is None else [facts_of(task)]
        return facts


def _read_progress(found: KV | None) -> Progress:
    return Progress() if found is None else _PROGRESS.decode(found.value)


def _read_rollup(kv: KV) -> Rollup:
    return Rollup(int(kv.key.rsplit(b"/", 3)[1]), name_of(kv), read_figures(kv.value))


def _read_task(spec: KV, *, live: KV | None, result: KV | None) -> Task | None:
    """The task of no payload; None: it neither lives nor has ended."""
    asked = to_spec(id_of(spec), read_spec(spec.value), apart=None)
    state = read_state(live) if live is not None and result is None else None
    return to_task(asked, state=state, result=result, error=None)
