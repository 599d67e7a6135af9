"""The workers that may be given work now, with their exact load.

What a worker reports of its load is as old as its last heartbeat. How many entries stand in its queue or are in flight
is known to the coordinator at once, so that counts instead: nobody is given more than fits. Only a coordinator that has
just lost its memory does not know what runs: until it has learnt that again, a worker that says more is believed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rota.domain.ids import TaskId, WorkerId
from rota.domain.queue import QueueDepths
from rota.domain.worker import ANY_TYPE, Worker, types_by


@dataclass(frozen=True, slots=True)
class Crew:
    """Who is there, and how much room they have for each type."""

    workers: tuple[Worker, ...]
    room: int
    _rooms: Mapping[str, int]
    _counts: Mapping[str, int]
    as_of: int = 0  # when that was so, as the depths count it
    is_estimate: bool = False  # known without asking: there may be more room by now

    @classmethod
    def gather(cls, workers: Iterable[Worker], depths: QueueDepths, *, are_depths_trusted: bool = True) -> "Crew":
        """The workers alive, each with what is handed to it now as its load, or with what it reports if that is more
        and the depths may be too low."""
        loaded = tuple(_with_load(worker, depths, least=0 if are_depths_trusted else worker.load) for worker in workers)
        return cls._of(loaded, as_of=depths.as_of)

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
        if not self._is_named(task_type, executor):
            return self._rooms.get(ANY_TYPE, 0)
        names = (ANY_TYPE, task_type, types_by(executor))
        twice = sum(worker.room for worker in self._who_name_both(task_type, executor))
        return sum(self._rooms.get(name, 0) for name in names) - twice

    def count_for(self, task_type: str, executor: str = "") -> int:
        """How many workers support a type, busy and draining ones too."""
        if not self._is_named(task_type, executor):
            return self._counts.get(ANY_TYPE, 0)
        names = (ANY_TYPE, task_type, types_by(executor))
        return sum(self._counts.get(name, 0) for name in names) - len(self._who_name_both(task_type, executor))

    def _is_named(self, task_type: str, executor: str) -> bool:
        """Whether any worker says that it supports this type, rather than all."""
        return task_type in self._counts or types_by(executor) in self._counts

    def _who_name_both(self, task_type: str, executor: str) -> list[Worker]:
        """Those who name the type and its executor and were counted for both: hardly ever is there one."""
        marked = types_by(executor)
        if task_type not in self._counts or marked not in self._counts:
            return []
        named = [worker for worker in self.workers if {task_type, marked} <= worker.types]
        return [worker for worker in named if ANY_TYPE not in worker.types]


def _with_load(worker: Worker, depths: QueueDepths, *, least: int) -> Worker:
    held = depths.assigned.get(worker.id, 0) + depths.in_flight.get(worker.id, 0)
    load = max(held + sum(depths.reserved.get(worker.id, {}).values()), least)
    return worker if load == worker.load else worker.with_load(load)
