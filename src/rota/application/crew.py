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

    workers: tuple[Worker, ...]  # as they are known …
    loads: Mapping[WorkerId, int]  # … and what each has now: apart, since copies of many workers are dear
    room: int
    _rooms: Mapping[str, int]
    _counts: Mapping[str, int]
    as_of: int = 0  # when that was so, as the loads count it
    is_estimate: bool = False  # known without asking: there may be more room by now

    @classmethod
    def gather(cls, workers: Iterable[Worker], loads: WorkerLoads, *, are_loads_trusted: bool = True) -> "Crew":
        """The workers alive, each with what is handed to it now as its load, or with what it reports if that is more
        and the loads may be too low."""
        listed = tuple(workers)
        assigned, in_flight = loads.assigned, loads.in_flight
        now = {worker.id: assigned.get(worker.id, 0) + in_flight.get(worker.id, 0) for worker in listed}
        for worker_id in now.keys() & loads.reserved.keys():
            now[worker_id] += sum(loads.reserved[worker_id].values())
        if not are_loads_trusted:
            now = {worker.id: max(now[worker.id], worker.load) for worker in listed}
        return cls._of(listed, now, as_of=loads.as_of)

    @classmethod
    def _of(
        cls, workers: tuple[Worker, ...], loads: Mapping[WorkerId, int], *, as_of: int, is_estimate: bool = False
    ) -> "Crew":
        rooms_by, counts_by = Counter[frozenset[str]](), Counter[frozenset[str]]()  # most workers support the same
        for worker in workers:
            rooms_by[worker.types] += worker.room_beside(loads[worker.id])
            counts_by[worker.types] += 1
        rooms, counts = Counter[str](), Counter[str]()
        for types, room in rooms_by.items():
            for supported in (ANY_TYPE,) if ANY_TYPE in types else types:
                rooms[supported] += room
                counts[supported] += counts_by[types]
        return cls(workers, loads, rooms_by.total(), rooms, counts, as_of, is_estimate)

    def given(self, chosen: Mapping[TaskId, WorkerId]) -> "Crew":
        """The same workers, each with what it was given as well."""
        loads = dict(self.loads)
        for worker_id, number in Counter(chosen.values()).items():
            loads[worker_id] += number
        return self._of(self.workers, loads, as_of=self.as_of, is_estimate=True)

    def room_for(self, task_type: str, executor: str = "") -> int:
        """How many attempts of a type the workers could start, if nothing else took their room."""
        names = self._names_for(task_type, executor)
        if len(names) > 1:
            return sum(worker.room_beside(self.loads[worker.id]) for worker in self._who_support(task_type, executor))
        return self._rooms.get(ANY_TYPE, 0) + sum(self._rooms[name] for name in names)

    def count_for(self, task_type: str, executor: str = "") -> int:
        """How many workers support a type, busy and draining ones too."""
        names = self._names_for(task_type, executor)
        if len(names) > 1:
            return len(self._who_support(task_type, executor))
        return self._counts.get(ANY_TYPE, 0) + sum(self._counts[name] for name in names)

    def count_draining(self, task_type: str, executor: str = "") -> int:
        """How many of them take nothing new until somebody resumes them."""
        return sum(worker.is_draining for worker in self._who_support(task_type, executor))

    def _names_for(self, task_type: str, executor: str) -> list[str]:
        """By which names workers support a type, apart from those that support all; mostly there is one at most."""
        return [name for name in names_of(task_type, executor) if name in self._counts]

    def _who_support(self, task_type: str, executor: str) -> list[Worker]:
        """One by one, since some may have more than one of the names."""
        return [worker for worker in self.workers if worker.supports(task_type, executor)]
