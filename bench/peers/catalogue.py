"""The peers: what to install, how their workers are started, how many tasks fill a few seconds."""

from dataclasses import dataclass

PRODUCTS = {"redis": "Redis", "postgresql": "PostgreSQL"}
FAST_REDIS = "redis[hiredis]"  # as redis-py documents for speed; each takes the release that the peer allows


@dataclass(frozen=True, slots=True)
class Peer:
    """Commands are programs of its own environment. Every worker command is started as often as it says."""

    name: str
    packages: tuple[str, ...]
    worker: tuple[str, ...]
    tasks: int  # of one round
    processes: int = 1  # of the worker command; those that start two by themselves are started once
    database: str = "redis"
    batch: int = 0  # tasks that its workers take at once and create at once, where they do both
    open_tasks: str = ""  # with those who keep a durable record of every task: finds one whose end is not on record yet
    prepare: tuple[str, ...] = ()  # makes its tables

    @property
    def keeps_record(self) -> bool:
        """Of tasks that have ended, durably."""
        return bool(self.open_tasks)

    @property
    def module(self) -> str:
        return f"bench.peers.{self.name}_app"

    @property
    def ground(self) -> str:
        """What it stands on, for people."""
        database = PRODUCTS[self.database]
        return f"{database}, batches of {self.batch}" if self.batch else database


def _app(name: str) -> str:
    return f"bench.peers.{name}_app"


PEERS = (
    Peer(
        "celery",
        ("celery[redis]", FAST_REDIS),
        (
            *("celery", "-A", _app("celery"), "worker", "--pool", "solo", "--loglevel", "ERROR"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ),
        tasks=5_000,
        processes=2,
    ),
    Peer(
        "dramatiq",
        ("dramatiq[redis]", FAST_REDIS),
        ("dramatiq", _app("dramatiq"), "--processes", "2", "--threads", "8"),
        tasks=10_000,
    ),
    Peer(
        "taskiq",
        ("taskiq", "taskiq-redis", FAST_REDIS, "uvloop"),
        (
            *("taskiq", "worker", f"{_app('taskiq')}:broker", "--workers", "2", "--log-level", "ERROR"),
            *("--max-async-tasks", "100", "--max-prefetch", "100"),
        ),
        tasks=10_000,
    ),
    Peer(
        "saq",
        ("saq[redis,hiredis]", "typing-extensions"),  # which it uses and does not name
        ("saq", f"{_app('saq')}.settings", "--workers", "2"),
        tasks=8_000,
    ),
    Peer("streaq", ("streaq",), ("streaq", "run", f"{_app('streaq')}:worker", "--workers", "2"), 5_000),
    Peer("arq", ("arq", FAST_REDIS), ("arq", f"{_app('arq')}.WorkerSettings"), 4_000, processes=2),
    Peer(
        "rq",
        ("rq", FAST_REDIS),
        ("rq", "worker", "--quiet", "--worker-class", "rq.SimpleWorker", "--url", "{url}"),
        tasks=2_000,
        processes=2,
    ),
    Peer(
        "huey",
        ("huey[redis]", FAST_REDIS),
        ("huey_consumer", f"{_app('huey')}.huey", "-w", "2", "-k", "process", "-q"),
        tasks=12_000,
    ),
    Peer(
        "procrastinate",
        ("procrastinate",),
        ("procrastinate", "--app", f"{_app('procrastinate')}.app", "worker", "--concurrency", "100"),
        tasks=2_000,
        processes=2,
        database="postgresql",
        open_tasks="SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing') LIMIT 1",
        prepare=("procrastinate", "--app", f"{_app('procrastinate')}.app", "schema", "--apply"),
    ),
    Peer(
        "pgqueuer",
        ("pgqueuer[asyncpg]", "uvloop"),
        ("python", "-m", _app("pgqueuer")),
        tasks=80_000,
        processes=2,
        database="postgresql",
        batch=500,
        open_tasks="SELECT 1 FROM pgqueuer LIMIT 1",
        prepare=("pgq", "--pg-dsn", "{url}", "install"),
    ),
)
