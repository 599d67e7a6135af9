"""How many calls the gRPC executor makes per second, beside bare grpc.aio making the same calls in the same run.

`python -m bench.grpc_executor`: both call one server, in a process of its own on loopback, so many calls at a time. The
rounds alternate, so that what else the machine does meets both; the share is the median of theirs.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

import grpc
import grpc.aio

from bench.options import parser_of, within
from bench.usage import OthersWatch
from rota._proto.executor.v1 import executor_pb2 as pb
from rota.domain.attempt import Succeeded
from rota.infrastructure.executors.grpc.own_service import write_request
from tests.support.grpc_jobs import EXECUTE, Service, a_grpc_executor, a_grpc_job, a_grpc_server, succeed_with
from tests.support.local_jobs import Recorder

PAYLOAD = {"url": "cat.jpg", "width": 200, "tags": ["a", "b"]}
BAR = 0.6  # of the calls that bare grpc.aio makes


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--calls", type=within(1), default=2000, help="of each kind in a round")
    parser.add_argument("--at-once", type=within(1), default=20, help="calls under way")
    parser.add_argument("--rounds", type=within(1), default=5, help="the result is their median")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(serve())
        return 0
    watch = OthersWatch()
    command = [sys.executable, "-m", "bench.grpc_executor", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 ours
        assert server.stdout is not None  # noqa: S101 asked for above
        try:
            share = asyncio.run(measure(server.stdout.readline().strip(), chosen))
        finally:
            server.terminate()
    print(watch.spell())
    return 0 if share >= BAR else 1


async def serve() -> None:
    async with a_grpc_server(Service({EXECUTE: succeed_with({"ok": True})})) as address:
        print(address, flush=True)
        await asyncio.Event().wait()


async def measure(address: str, chosen: argparse.Namespace) -> float:
    shares: list[float] = []
    async with a_grpc_executor() as executor, grpc.aio.insecure_channel(address) as channel:
        job, recorder = a_grpc_job(address, PAYLOAD, left=600), Recorder()
        bare: Any = channel.unary_unary(EXECUTE, response_deserializer=pb.ExecuteResponse.FromString)

        async def call_bare() -> None:
            answer = await bare(write_request(job, deadline=datetime.now(UTC)), timeout=600)
            assert answer.HasField("success")  # noqa: S101 or it measures failures

        async def call_ours() -> None:
            assert isinstance(await executor.execute(job, recorder), Succeeded)  # noqa: S101 the same

        for number in range(chosen.rounds + 1):
            theirs = await rate(call_bare, chosen)
            ours = await rate(call_ours, chosen)
            if number:  # the first round warms up
                shares.append(ours / theirs)
                print(f"bare {theirs:7.0f} calls/s   executor {ours:7.0f} calls/s   {ours / theirs:5.0%}")
    share = statistics.median(shares)
    print(f"median share {share:.0%} (bar {BAR:.0%})")
    return share


async def rate(call: Any, chosen: argparse.Namespace) -> float:
    """Calls per second."""
    left = iter(range(chosen.calls))

    async def work() -> None:
        for _ in left:
            await call()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(chosen.at_once)))
    return float(chosen.calls / (time.perf_counter() - began))


if __name__ == "__main__":
    sys.exit(main())
