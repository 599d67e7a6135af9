"""What a worker is told about itself, and the ports it works with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from rota.application.config_cache import ConfigCache
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.executor import Link, no_link
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.store import Store
from rota.application.ports.system import Clock, Ids, Random
from rota.application.store_time import StoreTime
from rota.application.work.spool import Spool
from rota.domain.checks import check_duration, check_number
from rota.domain.errors import InvalidError
from rota.domain.ids import WorkerId
from rota.domain.worker import ANY_TYPE, Worker

MIB = 1024 * 1024
SHORTEST_BEAT = timedelta(milliseconds=100)
SETTLING = timedelta(seconds=8)  # for results on their way, when the last attempt has ended
IDLE = timedelta(seconds=30)  # at most: the watchdog wants to see every loop turn
LONGEST_BEAT = timedelta(seconds=60)  # a loop that does nothing for longer looks stuck to the watchdog


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """One worker's own settings; checked here, so that a bad one is found before anything starts."""

    name: str
    address: str = ""
    capacity: int = 10
    types: frozenset[str] = frozenset({ANY_TYPE})
    weight: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    heartbeat_every: timedelta = timedelta(seconds=3)
    lease: timedelta = timedelta(seconds=12)
    stop_grace: timedelta = timedelta(seconds=2)  # of the executors, between a soft stop and a hard one
    drain_timeout: timedelta = timedelta(seconds=30)
    batch_size: int = 500  # attempts taken, and results written, at once
    log_bytes_per_attempt: int = MIB
    log_bytes: int = 32 * MIB  # lines of all tasks that wait for the store

    def __post_init__(self) -> None:
        self.as_worker(WorkerId(1))
        check_duration("worker.heartbeat_interval", self.heartbeat_every, least=SHORTEST_BEAT)
        if self.heartbeat_every > LONGEST_BEAT:
            raise InvalidError("worker.heartbeat_interval", f"must be at most {LONGEST_BEAT.total_seconds():g} seconds")
        check_duration("worker.lease", self.lease, least=self.heartbeat_every * 2)  # one lost beat is no death
        check_duration("worker.stop_grace", self.stop_grace)
        if self.stop_grace * 4 > self.lease:  # a heartbeat that is only late must stop nothing
            raise InvalidError("worker.stop_grace", "must be at most a quarter of worker.lease")
        check_duration("worker.drain_timeout", self.drain_timeout)
        check_number("worker.batch_size", self.batch_size, least=1, most=1000)

    @property
    def trusted_for(self) -> timedelta:
        """How long after its last heartbeat it may go on: what it stops then has ended when the lease has."""
        return self.lease - self.stop_grace

    @property
    def ending(self) -> timedelta:
        """How long attempts that are stopped when it leaves may take to end, and their results to be written."""
        return self.stop_grace + SETTLING

    def as_worker(self, worker_id: WorkerId) -> Worker:
        """An incarnation of this worker."""
        return Worker(
            id=worker_id,
            name=self.name,
            address=self.address,
            capacity=self.capacity,
            types=self.types,
            weight=self.weight,
            labels=self.labels,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPorts:
    """All that a worker needs from outside."""

    store: Store
    coordinator: Coordinator
    store_time: StoreTime
    configs: ConfigCache
    clock: Clock
    random: Random
    ids: Ids
    collector: MetricsCollector
    spool: Spool
    link: Link = no_link  # the URL by which an attempt is finished from outside
    guard_every: timedelta = timedelta(0)

    @property
    def idle(self) -> timedelta:
        """How long a loop that has nothing to do may sleep."""
        return max(IDLE, self.guard_every)
