"""A worker process as the scheduler sees it."""

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache

from rota.domain.checks import check_metadata, check_name, check_number, check_text, to_json
from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId, WorkerId
from rota.domain.task_config import LOCAL, TaskConfig

MAX_CAPACITY = 1000
MAX_LOAD = 2**31 - 1  # what every coordinator can hold
MAX_COMPLETED = 2**63 - 1
MAX_TYPES = 256  # with their longest names they fit the 64 KiB of MySQL's TEXT
MAX_LABELS_BYTES = 32 * 1024  # as JSON: so do these
ANY_TYPE = "*"
EXECUTOR_MARK = "@"  # `@http` stands for every type whose executor is `http`
MOST_PACKAGES = 16  # that a module is in, one within the other: more are taken as one name
OF_MODULE = f"{LOCAL}."  # `@local.shop` stands for every type whose config names a function of `shop` or below


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One incarnation of a worker: a new id at every process start, a name that people recognise."""

    id: WorkerId
    name: str
    address: str = ""
    capacity: int = 10
    types: frozenset[str] = frozenset({ANY_TYPE})
    weight: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    load: int = 0
    is_draining: bool = False

    def __post_init__(self) -> None:
        check_name("worker.name", self.name)
        check_text("worker.address", self.address, longest=255)
        check_number("worker.capacity", self.capacity, least=1, most=MAX_CAPACITY)
        check_number("worker.weight", self.weight, least=1, most=1000)
        _check_types(self.types)
        if labels := check_metadata("worker.labels", self.labels):
            to_json("worker.labels", labels, most_bytes=MAX_LABELS_BYTES)

    @property
    def room(self) -> int:
        """How many more attempts it may be given now."""
        return self.room_beside(self.load)

    def room_beside(self, load: int) -> int:
        """The same, if it had this load."""
        return 0 if self.is_draining else max(self.capacity - load, 0)

    def with_load(self, load: int) -> "Worker":
        """The same worker with another load.

        Nothing else changes, so nothing is checked again: a balancer sees a new value after every single choice, and
        `replace` took half the time of a dispatch round.
        """
        other = object.__new__(Worker)
        for read, write in _FIELDS:
            write(other, read(self))
        _SET_LOAD(other, load)
        return other

    def supports(self, task_type: str, executor: str = "") -> bool:
        """Whether it takes tasks of a type, by its name or by what it needs to run."""
        return ANY_TYPE in self.types or not self.types.isdisjoint(names_of(task_type, executor))


# How each field is read and written: by name takes twice as long.
_FIELDS = tuple((vars(Worker)[name].__get__, vars(Worker)[name].__set__) for name in Worker.__slots__)
_SET_LOAD = vars(Worker)["load"].__set__


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a worker says of itself every few seconds: how busy it is, whether it gets on, and what it works at."""

    load: int
    completed: int = 0  # attempts ended since the process started: one that has work and never counts on is stuck
    held: frozenset[tuple[TaskId, int]] = frozenset()  # task and attempt number; no more than a capacity

    def __post_init__(self) -> None:
        check_number("heartbeat.load", self.load, least=0, most=MAX_LOAD)
        check_number("heartbeat.completed", self.completed, least=0, most=MAX_COMPLETED)
        if len(self.held) > MAX_CAPACITY:
            raise InvalidError("heartbeat.held", f"has {len(self.held)} attempts, at most {MAX_CAPACITY} are allowed")


@dataclass(frozen=True, slots=True)
class WorkerOrders:
    """What operators have asked of an incarnation. Each wish has a number that grows when it is made anew, so that the
    worker follows it once: its own settings may change later, and then count."""

    capacity: int | None = None
    capacity_number: int = 0
    is_draining: bool | None = None
    draining_number: int = 0

    def with_capacity(self, capacity: int) -> "WorkerOrders":
        return replace(self, capacity=capacity, capacity_number=self.capacity_number + 1)

    def with_draining(self, is_draining: bool) -> "WorkerOrders":
        return replace(self, is_draining=is_draining, draining_number=self.draining_number + 1)


def types_by(executor: str) -> str:
    """What stands, among a worker's types, for all that an executor runs."""
    return f"{EXECUTOR_MARK}{executor}"


def functions_in(module: str) -> str:
    """What a config needs that names a function of a module: this, or a package that the module is in, or `local`."""
    return f"{OF_MODULE}{module}"


def needed_by(config: TaskConfig) -> str:
    """What runs the tasks of a config: its executor, or the module of the function that it names."""
    if config.executor_type != LOCAL or "function" not in config.executor_config:
        return config.executor_type
    said = json.loads(config.executor_config)
    return needed_for(config.executor_type, said.get("function") if isinstance(said, dict) else None)


def needed_for(executor_type: str, reference: object) -> str:
    """The same of a config that is not at hand: by its executor and the function that it names, if any."""
    if executor_type != LOCAL or not isinstance(reference, str):
        return executor_type
    return functions_in(reference.partition(":")[0])


@lru_cache(maxsize=4096)
def names_of(task_type: str, executor: str) -> tuple[str, ...]:
    """By which names, beside `*`, a worker may take tasks of a type that need this."""
    if not executor.startswith(OF_MODULE):
        return task_type, types_by(executor)
    parts = executor.split(".", MOST_PACKAGES)
    return task_type, *(types_by(".".join(parts[:most])) for most in range(1, len(parts) + 1))


def order_mark(worker_id: WorkerId) -> TaskId:
    """What stands for a worker among the requests to cancel, and tells it that there is an order.

    Tasks and workers have their ids from the same source, so no task has this one.
    """
    return TaskId(worker_id)


def kill_mark(task_id: TaskId) -> TaskId:
    """What stands among the requests to cancel for the wish that a task be ended hard. No task has a negative id."""
    return TaskId(-task_id)


def _check_types(types: object) -> None:
    if not isinstance(types, Set) or not 1 <= len(types) <= MAX_TYPES:
        raise InvalidError("worker.types", f"must be a set of 1 to {MAX_TYPES} names; * stands for every type")
    for name in types:
        _check_type_name(name)


def is_type_name(name: str) -> bool:
    """Whether it can be among the types of a worker."""
    try:
        _check_type_name(name)
    except InvalidError:
        return False
    return True


def _check_type_name(name: object) -> None:
    if name != ANY_TYPE:
        check_name("worker.types", name.removeprefix(EXECUTOR_MARK) if isinstance(name, str) else name)
