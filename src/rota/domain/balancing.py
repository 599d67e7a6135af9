"""Which worker gets a task.

A load balancer is a pure function: from what is needed, the workers that may take it (alive, supporting the type, with
room) and a `Draw` (a turn counter and a random number, both passed in) it picks one. `spread` applies it to a batch.
"""

import hashlib
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heapreplace
from itertools import accumulate
from operator import attrgetter
from typing import Protocol

from msgspec import Struct

from rota.domain.ids import TaskId, WorkerId
from rota.domain.worker import ANY_TYPE, Worker, names_of

_Place = tuple[float, int, int, Worker]  # share in use, place in turn (no two are equal), the load it was made with
_Kind = tuple[str, str]  # a type and its executor
_HASH_MASK = 2**30 - 1  # what Python multiplies fastest


class Need(Struct, frozen=True):
    """What a task asks of a worker."""

    task_id: TaskId
    type: str
    executor: str = ""  # what runs the type, if it is known


class Draw(Struct, frozen=True):
    """The balancer's share of state and chance, kept by the caller."""

    turn: int  # grows by one with every choice; with every batch where `spread` chooses by load
    chance: float  # in [0, 1)


class LoadBalancer(Protocol):
    def __call__(self, need: Need, workers: Sequence[Worker], *, draw: Draw) -> Worker:
        """Pick one of `workers` (never empty, ordered by id). Pure: the same arguments give the same worker."""
        ...


def least_task(need: Need, workers: Sequence[Worker], *, draw: Draw) -> Worker:
    """The worker with the smallest share of its capacity in use; ties by turn."""
    first = draw.turn % len(workers)
    in_turn = [*workers[first:], *workers[:first]]
    shares = [worker.load / worker.capacity for worker in in_turn]
    return in_turn[shares.index(min(shares))]


def round_robin(need: Need, workers: Sequence[Worker], *, draw: Draw) -> Worker:
    """Each in turn."""
    return workers[draw.turn % len(workers)]


def random_choice(need: Need, workers: Sequence[Worker], *, draw: Draw) -> Worker:
    """Any, with equal chance."""
    return workers[int(draw.chance * len(workers))]


def weighted(need: Need, workers: Sequence[Worker], *, draw: Draw) -> Worker:
    """Any, with a chance in proportion to its weight."""
    ends = list(accumulate([worker.weight for worker in workers]))
    return workers[bisect(ends, draw.chance * ends[-1])]


def consistent_hash(need: Need, workers: Sequence[Worker], *, draw: Draw) -> Worker:
    """The same worker for the same task id; a worker that joins or leaves moves only its own share."""
    return _highest_score(str(need.task_id), workers)


def type_affinity(need: Need, workers: Sequence[Worker], *, draw: Draw) -> Worker:
    """The same worker for the same type while it has room, then the type's next one."""
    return _highest_score(need.type, workers)


BALANCERS: Mapping[str, LoadBalancer] = {
    "least_task": least_task,
    "round_robin": round_robin,
    "random": random_choice,
    "weighted": weighted,
    "consistent_hash": consistent_hash,
    "type_affinity": type_affinity,
}


def spread(
    needs: Iterable[Need],
    workers: Sequence[Worker],
    *,
    balancer: LoadBalancer,
    draws: Iterator[Draw],
    loads: Mapping[WorkerId, int] | None = None,
) -> dict[TaskId, WorkerId]:
    """Assign a batch without overfilling any worker; a task nobody can take now is left out.

    `loads` count, of all workers, in place of what these say themselves."""
    batch = list(needs)
    now = {worker.id: worker.load for worker in workers} if loads is None else dict(loads)
    roomy = sorted([one for one in workers if one.room_beside(now[one.id])], key=attrgetter("id"))
    if balancer is least_task:
        return _spread_by_share(batch, roomy, loads=now, draws=draws)
    able = _able_by_kind(batch, [worker.with_load(now[worker.id]) for worker in roomy])
    chosen: dict[TaskId, WorkerId] = {}
    for need in batch:
        candidates = able[need.type, need.executor]
        if not candidates:
            continue
        picked = balancer(need, list(candidates.values()), draw=next(draws))
        worker = candidates[picked.id]  # a balancer that makes up a worker fails here
        _add_load(worker, able.values())
        chosen[need.task_id] = worker.id
    return chosen


def draws_from(turn: int, chance: Callable[[], float]) -> Iterator[Draw]:
    """An endless row of draws from a starting turn and a source of chance."""
    while True:
        yield Draw(turn, chance())
        turn += 1


def _able_by_kind(batch: Sequence[Need], roomy: Sequence[Worker]) -> dict[_Kind, dict[WorkerId, Worker]]:
    """Kinds that no worker names have one group together: the workers that take every type."""
    kinds = {(need.type, need.executor) for need in batch}
    named = {name for worker in roomy for name in worker.types}
    takes_all = {worker.id: worker for worker in roomy if ANY_TYPE in worker.types}
    able = dict.fromkeys(kinds, takes_all)
    for kind in kinds:
        if not named.isdisjoint(names_of(*kind)):
            able[kind] = {worker.id: worker for worker in roomy if worker.supports(*kind)}
    return able


def _add_load(worker: Worker, groups: Iterable[dict[WorkerId, Worker]]) -> None:
    fuller = worker.with_load(worker.load + 1)
    for group in groups:
        if fuller.room and worker.id in group:
            group[worker.id] = fuller
        else:
            group.pop(worker.id, None)


def _spread_by_share(
    batch: Sequence[Need], roomy: Sequence[Worker], *, loads: dict[WorkerId, int], draws: Iterator[Draw]
) -> dict[TaskId, WorkerId]:
    """What `least_task` chooses, ties by the turn of the batch, without a look at all workers for each."""
    able = _able_by_kind(batch, roomy)
    if not any(able.values()):
        return {}
    turn = next(draws).turn
    heaps = _heaps_of(able, turn, loads=loads)
    chosen: dict[TaskId, WorkerId] = {}
    for need in batch:
        heap = heaps[need.type, need.executor]
        _refresh_top(heap, loads)
        if heap:
            worker = heap[0][-1]
            loads[worker.id] += 1
            chosen[need.task_id] = worker.id
    return chosen


def _heaps_of(
    able: Mapping[_Kind, Mapping[WorkerId, Worker]], turn: int, *, loads: Mapping[WorkerId, int]
) -> dict[_Kind, list[_Place]]:
    """By kind; those that the same workers can take share one, so that a thousand types cost no more than one."""
    made: dict[tuple[WorkerId, ...], list[_Place]] = {}
    heaps: dict[int, list[_Place]] = {}  # by which group it is
    for group in able.values():
        if id(group) not in heaps:
            who = tuple(group)
            if who not in made:
                made[who] = _by_share(list(group.values()), turn, loads=loads)
            heaps[id(group)] = made[who]
    return {kind: heaps[id(group)] for kind, group in able.items()}


def _by_share(workers: Sequence[Worker], turn: int, *, loads: Mapping[WorkerId, int]) -> list[_Place]:
    number = len(workers)
    places = [
        ((load := loads[worker.id]) / worker.capacity, (index - turn) % number, load, worker)
        for index, worker in enumerate(workers)
    ]
    heapify(places)
    return places


def _refresh_top(heap: list[_Place], loads: Mapping[WorkerId, int]) -> None:
    """Until the least loaded worker stands at the top: loads only grow, also by tasks of other types."""
    while heap:
        _, place, load, worker = heap[0]
        current = loads[worker.id]
        if current == load:
            return
        if current < worker.capacity:
            heapreplace(heap, (current / worker.capacity, place, current, worker))
        else:
            heappop(heap)


def _highest_score(key: str, workers: Sequence[Worker]) -> Worker:
    # Rendezvous hashing: every worker scores every key, the highest wins, so nobody else's keys move. The score is a
    # product of two hashes: to hash each pair took 0.1 s for 500 tasks and 200 workers. Of two incarnations with one
    # name the newer wins, as the older may be a dead one whose lease still runs.
    newest_first = workers[::-1]
    factor = _hash(key)
    scores = [seed * factor & _HASH_MASK for seed in _hashes(tuple([worker.name for worker in newest_first]))]
    return newest_first[scores.index(max(scores))]


@lru_cache(maxsize=256)
def _hashes(texts: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(map(_hash, texts))


@lru_cache(maxsize=4096)
def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=4).digest()
    return int.from_bytes(digest) & _HASH_MASK | 1  # odd, so that multiplying loses nothing
