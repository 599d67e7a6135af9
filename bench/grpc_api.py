"""How many tasks can be created over gRPC?

    python bench/grpc_api.py [--seconds 5] [--at-once 32] [--batch 1000]

The server of `bench/api.py`, asked by grpc.aio from a process of its own: single creates, so many at a time, each
waiting for its answer, up to 32 of them over one connection; then batches.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import grpc.aio

from bench.api import BATCH_LANES, WARM_UP, Served, serving
from bench.forks import in_a_fork
from bench.grounds import ground
from bench.options import parser_of, within
from rota._proto.v1 import task_service_pb2 as pb
from rota.application.submit import MOST_AT_ONCE
from rota.infrastructure.event_loop import new_event_loop

SERVICE = "/rota.v1.TaskService"
CALLS_OF_CHANNEL = 32  # a server takes no more than a hundred
OWN = (("grpc.use_local_subchannel_pool", 1),)  # or all channels would share one connection
PAYLOAD = '{"to": "ada@example.com", "subject": "hello", "body": "as real work has"}'


class Wanted(NamedTuple):
    at_once: int
    batch: int  # tasks in each call; 0: one, by itself
    seconds: float


def rate(served: Served, wanted: Wanted) -> float:
    """Tasks a second."""
    return in_a_fork(_load, served.grpc, served.secret, wanted)  # this process itself never calls anybody over gRPC


def _load(address: str, secret: str, wanted: Wanted) -> float:  # fixed signature: Pool.apply
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_create(address, secret, wanted=wanted))


async def _create(address: str, secret: str, *, wanted: Wanted) -> float:
    one = pb.CreateTaskRequest(type="nothing", payload_json=PAYLOAD)
    request: Any = pb.CreateTasksRequest(tasks=[one] * wanted.batch) if wanted.batch else one
    name = "CreateTasks" if wanted.batch else "CreateTask"
    metadata = (("authorization", f"Bearer {secret}"),)
    counted, began = 0, time.monotonic() + WARM_UP
    channels = [grpc.aio.insecure_channel(address, OWN) for _ in range(0, wanted.at_once, CALLS_OF_CHANNEL)]

    async def lane(number: int) -> None:
        nonlocal counted
        channel = channels[number // CALLS_OF_CHANNEL]
        method: Any = channel.unary_unary(f"{SERVICE}/{name}", request_serializer=type(request).SerializeToString)
        while (now := time.monotonic()) < began + wanted.seconds:
            await method(request, metadata=metadata, timeout=30)
            counted += now >= began

    await asyncio.gather(*map(lane, range(wanted.at_once)))
    for channel in channels:
        await channel.close()
    return counted * max(wanted.batch, 1) / wanted.seconds


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=within(0.1), default=5.0, help="of each measurement")
    parser.add_argument("--at-once", type=within(1, 1_000), default=32, help="calls under way")
    parser.add_argument("--batch", type=within(1, MOST_AT_ONCE), default=1000, help="tasks of a batch")
    chosen = parser.parse_args()
    with ground("redis+mariadb") as where, serving(where) as served:
        for at_once, batch in ((chosen.at_once, 0), (BATCH_LANES, chosen.batch)):
            found = rate(served, Wanted(at_once, batch, chosen.seconds))
            print(f"{f'batches of {batch}' if batch else 'single':18s}{found:10,.0f} tasks/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
