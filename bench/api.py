"""How many tasks can be created over HTTP?

    python bench/api.py [--seconds 5] [--connections 32] [--batch 1000] [--working]

On MariaDB, durable and freshly started, coordinated by Redis, with one API process. Clients are processes of their own,
which send and read bytes over kept connections and parse no JSON, so that little of what is measured is theirs: first
single creates, each waiting for its answer, then batches. No two tasks are the same, and every answer is checked. The
tasks only wait, unless it is said that a scheduler and two workers run (`--working`). The bars are for a machine of its
own.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import noop_app
from bench.forks import in_a_fork
from bench.grounds import Ground, ground
from bench.installation import CAPACITY, opened, wait_until_done
from bench.life import plan_of
from bench.options import parser_of, within
from bench.usage import OthersWatch, cpu_seconds
from rota.application.submit import MOST_AT_ONCE
from rota.application.tokens import Tokens
from rota.config.wiring import open_node
from rota.domain.access import Role
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.task_config import TaskConfig
from rota.infrastructure.event_loop import new_event_loop
from tests.support.cluster import a_cluster

LEAST = {"single": 5_000.0, "batch": 30_000.0}  # tasks a second
WARM_UP = 1.0  # seconds
BATCH_LANES = 4
WORKERS = 2
TASK = b'{"type": "nothing", "payload": {"to": "ada@example.com", "subject": "%b", "body": "as real work has"}}'


class Found(NamedTuple):
    rate: float  # tasks a second
    spent: Mapping[str, float]  # CPU time for a task, in microseconds


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=within(0.1), default=5.0, help="of each measurement")
    parser.add_argument("--connections", type=within(1, 1_000), default=32, help="requests under way at once")
    parser.add_argument("--batch", type=within(1, MOST_AT_ONCE), default=1000, help="tasks of a batch")
    parser.add_argument("--working", action="store_true", help="with a scheduler and two workers")
    chosen = parser.parse_args()
    watch = OthersWatch()
    with ground("redis+mariadb") as where, serving(where, is_working=chosen.working) as served:
        load = Load(served.http, served.secret, chosen.seconds, served.pids)
        found = {"single": load.run(chosen.connections)}
        if chosen.working:
            print(f"tasks left to be done when the last one was created: {asyncio.run(served.count_left()):,}")
            asyncio.run(wait_until_done(served.settings))
        found["batch"] = load.run(BATCH_LANES, batch=chosen.batch)
    print(watch.spell())
    return report(found)


class Served(NamedTuple):
    """An API process: where it listens, what lets in, and all whose CPU time its requests take."""

    http: str
    grpc: str
    secret: str
    pids: Mapping[str, int]
    settings: Mapping[str, Any]

    async def count_left(self) -> int:
        """The tasks that nobody has worked on yet: where somebody does, a rate at which they pile up is none."""
        async with opened(self.settings) as ask:
            return await ask("SELECT COUNT(*) FROM task_live")


@contextmanager
def serving(where: Ground, *, is_working: bool = False) -> Iterator[Served]:
    """One API process on an empty database; what is created waits, or is worked on."""
    ports = {"port": 0, "grpc_port": 0, "rate": None}
    settings = {**asyncio.run(where.fresh()), "api": ports, "worker": {"capacity": CAPACITY}}
    secret = asyncio.run(prepare(settings))
    with TemporaryDirectory() as folder, a_cluster(Path(folder), settings, app=Path(noop_app.__file__)) as cluster:
        if is_working:
            cluster.start_all("worker", *(f"worker-{number + 1}" for number in range(WORKERS)))
            cluster.start("scheduler", "scheduler").wait_for("leader.won")
        process = cluster.start("api", "api")
        http, grpc = (process.wait_for(event)["address"] for event in ("api.listening", "grpc.listening"))
        pids = {started.name: started.pid for started in reversed(cluster.processes)}
        yield Served(http, grpc, secret, {**pids, **where.pids}, settings)


async def prepare(settings: Mapping[str, Any]) -> str:
    """A task config, and a token to create tasks with."""
    async with open_node(plan_of(settings)) as node:
        await node.store.configs.put(TaskConfig(type="nothing"))
        _, secret = await Tokens(node).issue(
            tenant_id=DEFAULT_TENANT, name="bench", role=Role.OPERATOR, expires_in=None, actor=None
        )
    return secret


@dataclass(frozen=True, slots=True)
class Load:
    """Clients of one server, and those whose CPU time they take: what each spends on a task is told in microseconds."""

    address: str
    secret: str
    seconds: float
    pids: Mapping[str, int]

    def run(self, lanes: int, *, batch: int = 0) -> Found:
        path = "/api/v1/tasks:batch" if batch else "/api/v1/tasks"
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.secret}\r\n"
        before = {name: cpu_seconds(pid) for name, pid in self.pids.items()}
        sent = in_a_fork(_load, self.address, Requests(head.encode(), batch), lanes, self.seconds)
        whole = sent.whole * max(batch, 1)
        spent = {name: (cpu_seconds(pid) - before[name]) / whole * 1e6 for name, pid in self.pids.items()}
        return Found(sent.counted * max(batch, 1) / self.seconds, {**spent, "clients": sent.cpu / whole * 1e6})


@dataclass(slots=True)
class Requests:
    """Requests to send, no two of the same tasks."""

    head: bytes
    batch: int  # tasks in each; 0: one, by itself
    _made: int = 0

    def make(self) -> tuple[bytes, bytes]:
        """A request, and what its answer must have in it."""
        first = self._made
        self._made += max(self.batch, 1)
        if not self.batch:
            subject = b"hello %09d" % first
            return self._frame(TASK % subject), subject
        tasks = b",".join([TASK % (b"hello %09d" % number) for number in range(first, self._made)])
        return self._frame(b'{"tasks":[%b]}' % tasks), b'{"ids":["'

    def is_whole(self, answer: bytes) -> bool:
        """Whether an answer names as many tasks as were asked for."""
        return not self.batch or answer.count(b'","') == self.batch - 1

    def _frame(self, body: bytes) -> bytes:
        return b"%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (self.head, len(body), body)


@dataclass(slots=True)
class Sent:
    """What the clients did: requests in all, those after the warm-up, and the CPU time that it took them."""

    whole: int = 0
    counted: int = 0
    cpu: float = 0.0


def _load(address: str, requests: Requests, lanes: int, seconds: float) -> Sent:  # fixed signature: Pool.apply
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_load_lanes(address, requests, lanes=lanes, seconds=seconds))


async def _load_lanes(address: str, requests: Requests, *, lanes: int, seconds: float) -> Sent:
    loop, place, sent = asyncio.get_running_loop(), urlsplit(address), Sent()
    began, spent = time.monotonic() + WARM_UP, time.process_time()
    clients = [Client(requests, sent, began=began, ends=began + seconds) for _ in range(lanes)]
    for client in clients:
        connection = socket.create_connection((place.hostname, place.port))
        await loop.create_connection(lambda client=client: client, sock=connection)  # type: ignore[misc]
    await asyncio.gather(*(client.over for client in clients))
    sent.cpu = time.process_time() - spent
    return sent


class Client(asyncio.Protocol):
    """One connection: a request, its whole answer, the next request, until the time is over."""

    def __init__(self, requests: Requests, sent: Sent, *, began: float, ends: float) -> None:
        self.over = asyncio.get_running_loop().create_future()
        self._requests, self._sent, self._began, self._ends = requests, sent, began, ends
        self._pieces: list[bytes] = []
        self._left = 0  # bytes of the answer that have yet to come

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(exc or RuntimeError("the server closed a connection"))

    def data_received(self, data: bytes) -> None:
        if not self._pieces:  # uvicorn sends a head by itself or with its body, never half of it
            head, _, rest = data.partition(b"\r\n\r\n")
            self._left = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]) - len(rest)
        else:
            self._left -= len(data)
        self._pieces.append(data)
        if not self._left:
            answer = b"".join(self._pieces)
            self._pieces.clear()
            self._take(answer)

    def _take(self, answer: bytes) -> None:
        is_good = answer.startswith(b"HTTP/1.1 201 ") and self._wanted in answer and self._requests.is_whole(answer)
        if not is_good:
            self.over.set_exception(RuntimeError(f"the server did not create what it was asked for: {answer[:300]!r}"))
            return
        now = time.monotonic()
        self._sent.whole += 1
        self._sent.counted += self._began <= now < self._ends
        if now < self._ends:
            self._ask()
        else:
            self.over.set_result(None)
            self._transport.close()

    def _ask(self) -> None:
        request, self._wanted = self._requests.make()
        self._transport.write(request)


def report(found: dict[str, Found]) -> int:
    missed = [kind for kind in found if found[kind].rate < LEAST[kind]]
    for kind, (rate, spent) in found.items():
        shares = ", ".join(f"{name} {spent[name]:.1f}" for name in spent)
        print(f"{kind:8}{rate:10,.0f} tasks/s (bar {LEAST[kind]:,.0f}); CPU time of each, in us: {shares}")
    print("all bars held" if not missed else f"below their bars: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
