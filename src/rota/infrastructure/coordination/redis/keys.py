"""The names in Redis. They are public: operators read them with `redis-cli`.

All share one hash tag, so that a cluster keeps them on one node and a script may use several. What is not bounded by
itself has a TTL: the keys of a worker that vanished, cancel requests, the leader, locks.
"""

from datetime import timedelta
from functools import lru_cache

from rota.domain.errors import ConfigError
from rota.domain.ids import TaskId, WorkerId
from rota.domain.priority import LEVELS, NAMES

# Prolonged by every heartbeat. What a lost worker leaves behind is dropped by `remove`, at the latest by this.
WORKER_KEYS_KEPT = timedelta(hours=1)
MOST_REMEMBERED = 1024  # workers
WORKER_KEYS_KEPT_MS = WORKER_KEYS_KEPT // timedelta(milliseconds=1)


class RedisKeys:
    """Every key and channel under one prefix."""

    def __init__(self, prefix: str) -> None:
        if not prefix or "{" in prefix or "}" in prefix:
            raise ConfigError(f"the redis prefix {prefix!r} is empty or has braces; try letters, such as rota")
        self._tag = f"{{{prefix}}}:"
        names = {level: name for name, level in NAMES.items()}
        self.levels = tuple(self._key(f"queue:{names.get(level, level)}") for level in LEVELS)
        self.delayed = self._key("queue:delayed")
        self.generation = self._key("generation")
        self.building = self._key("generation:building")
        self.leader = self._key("scheduler:leader")
        self.last_lease = self._key("scheduler:lease")
        self.vacancy = self._key("scheduler:vacancy")
        self.wake = self._key("scheduler:wake")
        self.last_fence = self._key("locks:last")
        self.workers = self._key("workers")
        self.changes = self._key("workers:changes")
        self.events = self._key("task:events")  # a channel
        self.remembered_events = self._key("task:events:log")
        self.last_event = self._key("task:events:last")
        self.deliveries_of = lru_cache(maxsize=MOST_REMEMBERED)(self._list_deliveries)

    def worker(self, worker_id: WorkerId) -> str:
        return self._key(f"worker:{worker_id}")

    def assigned(self, worker_id: WorkerId) -> str:
        return self._key(f"worker:{worker_id}:queue")

    def in_flight(self, worker_id: WorkerId) -> str:
        return self._key(f"worker:{worker_id}:inflight")

    def held(self, worker_id: WorkerId) -> tuple[str, str]:
        """What is assigned to a worker, and what it has taken."""
        return self.assigned(worker_id), self.in_flight(worker_id)

    def worker_wake(self, worker_id: WorkerId) -> str:
        return self._key(f"worker:{worker_id}:wake")

    def _list_deliveries(self, worker_id: WorkerId) -> tuple[str, str, str]:
        """What is handed to a worker: assigned, taken, its wake. Every batch names those of all its workers."""
        return self.assigned(worker_id), self.in_flight(worker_id), self.worker_wake(worker_id)

    def lock(self, name: str) -> str:
        return self._key(f"lock:{name}")

    def cancel(self, task_id: TaskId) -> str:
        return self._key(f"task:cancel:{task_id}")

    def _key(self, name: str) -> str:
        return self._tag + name


def milliseconds(duration: timedelta) -> int:
    """A TTL as Redis takes it: at least one, for it refuses zero."""
    return max(duration // timedelta(milliseconds=1), 1)
