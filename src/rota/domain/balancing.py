"""Which worker gets a task.

A load balancer is a pure function: from what is needed, the workers that may take it (alive, supporting the type, with
room) and a `Draw` (a turn counter and a random number, both passed in) it picks one. `spread` applies it to a batch.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rota.domain.ids import TaskId, WorkerId
from rota.domain.worker import Worker


@dataclass(frozen=True, slots=True)
class Need:
    """What a task asks of a worker."""

    task_id: TaskId
    type: str


@dataclass(frozen=True, slots=True)
class Draw:
    """The balancer's share of state and chance, kept by the caller."""

    turn: int  # grows by one with every choice
    chance: float  # in [0, 1)


class LoadBalancer(Protocol):
    def __call__(self, need: Need, workers: Sequence[Worker], draw: Draw) -> Worker:
        """Pick one of `workers` (never empty, ordered by id). Pure: the same arguments give the same worker."""
        ...


def least_task(need: Need, workers: Sequence[Worker], draw: Draw) -> Worker:
    """The worker with the smallest share of its capacity in use, then the most room; ties by turn."""
    emptiest = min((worker.load / worker.capacity, -worker.room) for worker in workers)
    ties = [worker for worker in workers if (worker.load / worker.capacity, -worker.room) == emptiest]
    return ties[draw.turn % len(ties)]


def round_robin(need: Need, workers: Sequence[Worker], draw: Draw) -> Worker:
    """Each in turn."""
    return workers[draw.turn % len(workers)]


def random_choice(need: Need, workers: Sequence[Worker], draw: Draw) -> Worker:
    """Any, with equal chance."""
    return workers[int(draw.chance * len(workers))]


def weighted(need: Need, workers: Sequence[Worker], draw: Draw) -> Worker:
    """Any, with a chance in proportion to its weight."""
    point = draw.chance * sum(worker.weight for worker in workers)
    for worker in workers:
        point -= worker.weight
        if point < 0:
            return worker
    return workers[-1]


def consistent_hash(need: Need, workers: Sequence[Worker], draw: Draw) -> Worker:
    """The same worker for the same task id; a worker that joins or leaves moves only its own share."""
    return _highest_score(str(need.task_id), workers)


def type_affinity(need: Need, workers: Sequence[Worker], draw: Draw) -> Worker:
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
    needs: Iterable[Need], workers: Sequence[Worker], *, balancer: LoadBalancer, draws: Iterator[Draw]
) -> dict[TaskId, WorkerId]:
    """Assign a batch without overfilling any worker; a task nobody can take now is left out."""
    pool = {worker.id: worker for worker in sorted(workers, key=lambda worker: worker.id)}
    chosen: dict[TaskId, WorkerId] = {}
    for need in needs:
        able = [worker for worker in pool.values() if worker.room and worker.supports(need.type)]
        if not able:
            continue
        worker = balancer(need, able, next(draws))
        pool[worker.id] = replace(worker, load=worker.load + 1)
        chosen[need.task_id] = worker.id
    return chosen


def draws_from(turn: int, chance: Callable[[], float]) -> Iterator[Draw]:
    """An endless row of draws from a starting turn and a source of chance."""
    while True:
        yield Draw(turn, chance())
        turn += 1


def _highest_score(key: str, workers: Sequence[Worker]) -> Worker:
    # Rendezvous hashing: every worker scores every key, the highest wins, so nobody else's keys move.
    return max(workers, key=lambda worker: (_score(key, worker.name), worker.id))


def _score(key: str, worker_name: str) -> bytes:
    return hashlib.blake2b(f"{key}\x00{worker_name}".encode(), digest_size=8).digest()
