"""The workers that may be given work now, with their exact load.

What a worker reports of its load is as old as its last heartbeat. How many entries stand in its queue or are in flight
is known to the coordinator at once, so that counts instead: nobody is given more than fits. Only a coordinator that has
just lost its memory does not know what runs: until it has learnt that again, a worker that says more is believed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rota.domain.ids import TaskId, WorkerId
from rota.domain.queue import WorkerLoads
from rota.domain.worker import ANY_TYPE, Worker, names_of


@dataclass(frozen=True, slots=True)
class Crew:
    """Who is there, and how much room they have for each type."""

    workers: tuple[Worker, ...]
    room: int
    _rooms: Mapping[str, int]
    _counts: Mapping[str, int]
    as_of: int = 0  # when that was so, as the loads count it
    is_estimate: bool = False  # known without asking: there may be more room by now

    @classmethod
    def gather(cls, workers: Iterable[Worker], loads: WorkerLoads, *, are_loads_trusted: bool = True) -> "Crew":
        """The workers alive, each with what is handed to it now as its load, or with what it reports if that is more
        and the loads may be too low."""
        loaded = tuple(_with_load(worker, loads, least=0 if are_loads_trusted else worker.load) for worker in workers)
        return cls._of(loaded, as_of=loads.as_of)

    @classmethod
    def _of(cls, loaded: tuple[Worker, ...], *, as_of: int, is_estimate: bool = False) -> "Crew":
        rooms, counts, room = Counter[str](), Counter[str](), 0
        for worker in loaded:
            own = worker.room
            room += own
            for supported in (ANY_TYPE,) if ANY_TYPE in worker.types else worker.types:
                rooms[supported] += own
                counts[supported] += 1
        return cls(loaded, room, rooms, counts, as_of, is_estimate)

    def given(self, chosen: Mapping[TaskId, WorkerId]) -> "Crew":
        """The same workers, each with what it was given as well."""
        numbers = Counter(chosen.values())
        loaded = [
            worker.with_load(worker.load + number) if (number := numbers.get(worker.id, 0)) else worker
            for worker in self.workers
        ]
        return self._of(tuple(loaded), as_of=self.as_of, is_estimate=True)

    def room_for(self, task_type: str, executor: str = "") -> int:
        """How many attempts of a type the workers could start, if nothing else took their room."""
        names = self._names_for(task_type, executor)
        if len(names) > 1:
            return sum(worker.room for worker in self._who_support(task_type, executor))
        return self._rooms.get(ANY_TYPE, 0) + sum(self._rooms[name] for name in names)

    def count_for(self, task_type: str, executor: str = "") -> int:
        """How many workers support a type, busy and draining ones too."""
        names = self._names_for(task_type, executor)
        if len(names) > 1:
            return len(self._who_support(task_type, executor))
        return self._counts.get(ANY_TYPE, 0) + sum(self._counts[name] for name in names)

    def _names_for(self, task_type: str, executor: str) -> list[str]:
        """By which names workers support a type, apart from those that support all; mostly there is one at most."""
        return [name for name in names_of(task_type, executor) if name in self._counts]

    def _who_support(self, task_type: str, executor: str) -> list[Worker]:
        """One by one, since some may have more than one of the names."""
        return [worker for worker in self.workers if worker.supports(task_type, executor)]


def _with_load(worker: Worker, loads: WorkerLoads, *, least: int) -> Worker:
    held = loads.assigned.get(worker.id, 0) + loads.in_flight.get(worker.id, 0)
    load = max(held + sum(loads.reserved.get(worker.id, {}).values()), least)
    return worker if load == worker.load else worker.with_load(load)
