"""How many tasks can be created over HTTP?

    python bench/api.py [--seconds 5] [--connections 32] [--batch 1000]

On MariaDB, durable and freshly started, coordinated by Redis, with one API process. Clients are processes of their own,
which send and read bytes over kept connections and parse nothing, so that little of what is measured is theirs: first
single creates, each waiting for its answer, then batches. No scheduler runs. The bars are for a machine of its own.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rota.application.ports.system import System
from rota.application.tokens import Tokens
from rota.config.embedded import flatten
from rota.config.load import Sources, load
from rota.config.wiring import Blueprint, open_node
from rota.domain.access import Role
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.task_config import TaskConfig
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.event_loop import new_event_loop
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support import cluster_app
from tests.support.cluster import a_cluster
from tests.support.servers.mariadb import MariaDbOptions, MariaDbServer
from tests.support.servers.redis import RedisServer

LEAST = {"single": 3_000.0, "batch": 20_000.0}  # tasks a second
WARM_UP = 1.0  # seconds
TASK = {"type": "email", "payload": {"to": "ada@example.com", "subject": "hello", "lines": [1, 2, 3]}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--batch", type=int, default=1000)
    chosen = parser.parse_args()
    options = MariaDbOptions(durable=True)
    with MariaDbServer(options) as database, RedisServer() as redis, TemporaryDirectory() as folder:
        url = database.url("rota")
        asyncio.run(upgrade(url))
        api = {"port": 0, "rate": None}
        settings = {"store": {"url": url}, "coordinator": {"url": redis.url()}, "api": api, "log": {"format": "json"}}
        secret = asyncio.run(prepare(settings))
        with a_cluster(Path(folder), settings, app=Path(cluster_app.__file__)) as cluster:
            process = cluster.start("api", "api")
            load = Load(process.wait_for("api.listening")["address"], secret, process.pid, chosen.seconds)
            return report({"single": load.run(chosen.connections), "batch": load.run(4, batch=chosen.batch)})


async def prepare(settings: dict[str, Any]) -> str:
    """A task config, and a token to create tasks with."""
    loaded = load(Sources(flags=flatten(settings), folder=Path("/nowhere"))).settings
    async with open_node(Blueprint(settings=loaded, system=System(SystemClock(), SystemRandom()))) as node:
        await node.store.configs.put(TaskConfig(type="email"))
        _, secret = await Tokens(node).issue(
            tenant_id=DEFAULT_TENANT, name="bench", role=Role.OPERATOR, expires_in=None, actor=None
        )
    return secret


@dataclass(frozen=True, slots=True)
class Load:
    """Clients of one server."""

    address: str
    secret: str
    pid: int
    seconds: float

    def run(self, lanes: int, *, batch: int = 0) -> tuple[float, float]:
        """Tasks a second, and the server's CPU time for one in microseconds."""
        body = json.dumps({"tasks": [TASK] * batch} if batch else TASK).encode()
        path = "/api/v1/tasks:batch" if batch else "/api/v1/tasks"
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.secret}\r\n"
        request = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        spent = self._read_cpu()
        with get_context("spawn").Pool(1) as pool:
            answered: int = pool.apply(_load, (self.address, request, lanes, self.seconds))
        tasks = answered * max(batch, 1)
        whole = tasks * (self.seconds + WARM_UP) / self.seconds  # the server worked while the clients warmed up
        return tasks / self.seconds, (self._read_cpu() - spent) / whole * 1e6

    def _read_cpu(self) -> float:
        ticks = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _load(address: str, request: bytes, lanes: int, seconds: float) -> int:  # fixed signature: Pool.apply
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_load_lanes(address, request, lanes=lanes, seconds=seconds))


async def _load_lanes(address: str, request: bytes, *, lanes: int, seconds: float) -> int:
    """How many requests were answered in this time, after a moment to warm up."""
    counted = 0
    began = time.monotonic() + WARM_UP

    async def lane() -> None:
        nonlocal counted
        place = urlsplit(address)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        while time.monotonic() < began + seconds:
            writer.write(request)
            if not await _read_answer(reader):
                raise RuntimeError("the server did not create what it was asked for")
            counted += time.monotonic() >= began
        writer.close()

    await asyncio.gather(*(lane() for _ in range(lanes)))
    return counted


async def _read_answer(reader: asyncio.StreamReader) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return head.startswith(b"HTTP/1.1 201 ")


def report(found: dict[str, tuple[float, float]]) -> int:
    missed = [kind for kind, (rate, _) in found.items() if rate < LEAST[kind]]
    for kind, (rate, cpu) in found.items():
        print(f"{kind:8}{rate:10,.0f} tasks/s (bar {LEAST[kind]:,.0f}), {cpu:6.0f} us of the server's CPU for each")
    print("all bars held" if not missed else f"below their bars: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
