"""What does the HTTP executor cost beside the bare client?

    python bench/executors.py [--requests 4000] [--rounds 5] [--at-once 20]

Posts tasks to a service on this machine, in a process of its own, over connections that are kept: by the executor, with
guard, signature, circuit and outcome, and by a bare aiohttp client that posts the same bytes and reads the answer. The
rounds of both alternate in one run; the median of their ratios counts. Exits with 1 when that is below 60 %.
"""

import argparse
import asyncio
import base64
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from rota.testing.values import replace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aiohttp

from bench.options import parser_of, within
from bench.usage import OthersWatch
from rota.application.ports.executor import Job, Reports
from rota.domain.attempt import Succeeded, TaskResult
from rota.infrastructure.executors.http.config import plan_of
from rota.infrastructure.executors.http.executor import HttpExecutor
from rota.infrastructure.executors.http.request import compose
from rota.infrastructure.executors.http.settings import HttpSettings, SecretSettings
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.sdk.signing import key_of
from tests.support.builders import NOW
from tests.support.http_jobs import LOOPBACK, an_http_job
from tests.support.local_jobs import Recorder

LEAST_RATIO = 0.6
SECRETS = (base64.b64encode(os.urandom(32)).decode(),)
KEYS = tuple(map(key_of, SECRETS))
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n" + b'{"sent":true}'

EXPECTED = Succeeded(TaskResult(data='{"sent":true}'))

Post = Callable[[], Awaitable[None]]


class Service(asyncio.Protocol):
    """Answers each request with the same bytes: the service must not be what is measured."""

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0) if found else 0
            if not found or len(rest) < length:
                return
            self._buffer = rest[length:]
            self._transport.write(ANSWER)  # type: ignore[attr-defined] # a stream's


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Service, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def a_service() -> Iterator[str]:
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 this very file
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline() if process.stdout else 0)}/tasks"
        finally:
            process.terminate()


async def rate_of(post: Post, *, requests: int, at_once: int) -> float:
    """Requests per second."""
    left = iter(range(requests))

    async def work() -> None:
        for _ in left:
            await post()

    began_at = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return requests / (time.perf_counter() - began_at)


async def measure(url: str, options: argparse.Namespace) -> list[tuple[float, float]]:
    job = replace(an_http_job(url), deadline=time.monotonic() + 3600)
    request = compose(job, plan_of(job.config.executor_config), keys=KEYS, now=NOW)
    settings = HttpSettings(allow=LOOPBACK, secrets={"default": SecretSettings(keys=SECRETS, hosts=("127.0.0.1",))})
    executor = HttpExecutor(SystemClock(), SystemRandom(), settings=settings)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def post_bare() -> None:
            async with session.post(url, data=request.body, headers=request.headers) as response:
                await response.read()

        reports = Recorder()
        found = []
        for number in range(options.rounds + 1):
            rates = []
            for post in (post_bare, lambda: execute(executor, job, reports=reports)):
                rates.append(await rate_of(post, requests=options.requests, at_once=options.at_once))
            if number:  # the first one warms up
                found.append((rates[0], rates[1]))
    await executor.close()
    return found


async def execute(executor: HttpExecutor, job: Job, *, reports: Reports) -> None:
    outcome = await executor.execute(job, reports)
    if outcome != EXPECTED:
        raise RuntimeError(f"it ended as {outcome}")


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--requests", type=within(1), default=4000, help="of each kind in a round")
    parser.add_argument("--rounds", type=within(1), default=5, help="the result is their median")
    parser.add_argument("--at-once", type=within(1), default=20, help="requests under way")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
    watch = OthersWatch()
    with a_service() as url:
        rounds = asyncio.run(measure(url, options))
    ratio = median(ours / bare for bare, ours in rounds)
    print(f"bare aiohttp   {median(bare for bare, _ in rounds):8.0f} requests/s")
    print(f"http executor  {median(ours for _, ours in rounds):8.0f} requests/s")
    print(f"ratio          {ratio:8.0%}  (at least {LEAST_RATIO:.0%})")
    print(watch.spell())
    return 0 if ratio >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
