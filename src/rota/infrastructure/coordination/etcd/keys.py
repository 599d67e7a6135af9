"""The names in etcd. They are public: operators read them with `etcdctl`.

    /rota/locks/scheduler                              who leads, bound to a lease
    /rota/locks/named/{name}                           who holds a lock of that name, bound to a lease
    /rota/nodes/scheduler/{node}                       who leads, by node
    /rota/nodes/dispatcher/{node}                      where all schedulers dispatch: one of them, bound to its lease
    /rota/nodes/worker/{id}                            a worker, bound to its lease; beside it load/{id} and held/{id}
    /rota/queues/ready/priority_{p}_{time}_{task}      tasks that wait, in order; the value is what they bring along
    /rota/queues/delayed/priority_{p}_{due}_{task}     those that are not due; due/{p}_{task} finds one again
    /rota/queues/worker_{id}/{task}_{attempt}          what was handed to a worker: `a{time}` assigned, `t` taken
    /rota/queues/worker_{id}/for_{scheduler}           places that a scheduler has reserved there, bound to its lease
    /rota/queues/passed/{time}_{task}                  what other schedulers leave to the leader
    /rota/queues/wake                                  there is news for the leader; wake_assistants: for the others
    /rota/cancels/{task}                               bound to a lease
    /rota/events/{time}_{count}                        a batch of events

Times are microseconds since 1970 in 17 digits, so that the order of keys is that of time.
"""

from collections.abc import Iterator
from urllib.parse import quote

from rota.application.ports.system import Clock
from rota.domain.errors import ConfigError
from rota.domain.ids import MAX_ID, NodeId, TaskId, WorkerId
from rota.infrastructure.etcd.ops import Span, under
from rota.infrastructure.instants import to_us

DEFAULT_PREFIX = "rota"
TIME_DIGITS = 17
PLACES = "for_"  # sorts behind all attempts, which begin with a digit
_MOST_DIGITS = len(str(MAX_ID))


class EtcdKeys:
    """Every key under one prefix."""

    def __init__(self, prefix: str) -> None:
        if not prefix or prefix != prefix.strip("/"):
            raise ConfigError(f"the etcd prefix {prefix!r} is empty or has slashes around it; try rota")
        self.root = f"/{prefix}/"
        self.leader = self._key("locks/scheduler")
        self.dispatchers = self._key("nodes/dispatcher/")
        self.workers = self._key("nodes/worker/")
        self.loads = self._key("nodes/load/")
        self.held = self._key("nodes/held/")
        self.changes = self._key("nodes/changes")
        self.ready = self._key("queues/ready/")
        self.delayed = self._key("queues/delayed/")
        self.due = self._key("queues/due/")
        self.passed = self._key("queues/passed/")
        self.wake = self._key("queues/wake")
        self.wake_assistants = self._key("queues/wake_assistants")
        self.generation = self._key("queues/generation")
        self.building = self._key("queues/building")
        self.deliveries = self._key("queues/worker_")
        self.cancels = self._key("cancels/")
        self.events = self._key("events/")
        self.events_begin = self._key("events_begin")

    def of_leader(self, node_id: NodeId) -> tuple[str, str]:
        """The key that says who leads, and the same by node."""
        return self.leader, self._key(f"nodes/scheduler/{quote(node_id, safe='')}")

    def lock(self, name: str) -> str:
        return self._key(f"locks/named/{name}")

    def dispatcher(self, node_id: NodeId) -> str:
        return f"{self.dispatchers}{quote(node_id, safe='')}"

    def ready_at(self, priority: int) -> Span:
        return under(f"{self.ready}priority_{priority}_")

    def delayed_at(self, priority: int) -> Span:
        return under(f"{self.delayed}priority_{priority}_")

    def ready_entry(self, priority: int, time: str, *, task_id: TaskId) -> str:
        return f"{self.ready}priority_{priority}_{time}_{task_id}"

    def delayed_entry(self, priority: int, time: str, *, task_id: TaskId) -> str:
        return f"{self.delayed}priority_{priority}_{time}_{task_id}"

    def due_of(self, priority: int, task_id: TaskId) -> str:
        return f"{self.due}{priority}_{task_id}"

    def of_worker(self, worker_id: WorkerId) -> tuple[str, str, str]:
        return f"{self.workers}{worker_id}", f"{self.loads}{worker_id}", f"{self.held}{worker_id}"

    def delivered_to(self, worker_id: WorkerId) -> str:
        return f"{self.deliveries}{worker_id}/"

    def places_at(self, worker_id: WorkerId) -> str:
        return f"{self.delivered_to(worker_id)}{PLACES}"

    def cancel(self, task_id: TaskId) -> str:
        return f"{self.cancels}{task_id}"

    def _key(self, name: str) -> str:
        return self.root + name


class Stamps:
    """Times for keys, each later than the one before it, also within a batch and when the clock steps back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0

    def next(self) -> str:
        self._last = max(to_us(self._clock.now()), self._last + 1)
        return spell_time(self._last)

    def take(self, count: int) -> Iterator[str]:
        return (self.next() for _ in range(count))


def spell_time(microseconds: int) -> str:
    return f"{max(microseconds, 0):0{TIME_DIGITS}}"


def find_waiting(key: bytes) -> tuple[int, int, TaskId] | None:
    """Priority, time and task in the key of a queue; None: it is none of ours."""
    parts = key.rpartition(b"/")[2].split(b"_")
    if len(parts) != 4 or parts[0] != b"priority":
        return None
    numbers = [find_number(part) for part in parts[1:]]
    if any(number is None for number in numbers):
        return None
    priority, time, task_id = (number or 0 for number in numbers)
    return priority, time, TaskId(task_id)


def find_number(text: bytes) -> int | None:
    if not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if number <= MAX_ID else None
