"""Is the console quick where millions of tasks are on record, and what do open consoles cost?

    python bench/console.py [--millions 1] [--rounds 5] [--consoles 50] [--seconds 20]

On MariaDB, durable, coordinated by Redis, with one API process and one scheduler. A history is made inside the
database: tasks of fifty types over thirty days; some failed, some wait, ten are of a type that is rare and old. The
list is asked for over HTTP as the console asks for it: its first page, and one page with each filter that is offered,
also such as match nothing. Then so many consoles are open on the overview of the idle cluster: each follows the stream
of events and asks for its figures as often as the page does.
"""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import noop_app
from bench.api import prepare
from bench.end_to_end import say
from bench.grounds import Ground, ground
from bench.options import parser_of, within
from bench.usage import MachineWatch, OthersWatch, cpu_seconds
from rota.domain.ids import TIME_SHIFT, first_id_at
from rota.infrastructure.system import SystemClock
from tests.support.cluster import a_cluster

FIRST_PAGE_S, FILTER_S, CONSOLES_SHARE = 0.3, 1.0, 0.2  # the bars
CHUNK = 100_000
DAYS = 30
LIVE = 5_000  # the newest of the tasks
PATIENCE_S = 60.0
OVERVIEW = {  # what the page asks for, and every how many seconds
    "/stats": 3.0,
    "/queues/types": 15.0,
    "/tasks?limit=100&status=FAILED&status=TIMEOUT&created_after={day_ago}": 20.0,
    "/reports?from={day_ago}&by=hour&zone=UTC": 10.0,  # every minute where there is much in it
    "/task-configs?limit=1000": 15.0,
    "/cluster": 15.0,
    "/workers?limit=1000": 15.0,
}
_STATUS = "CASE WHEN {n} % 50 = 1 THEN 6 WHEN {n} % 100 = 2 THEN 7 WHEN {n} % 100 = 3 THEN 8 ELSE 5 END"
_TASK = (
    "INSERT INTO task (id,status,priority,attempt,version,worker_id,term,started_us,completed_us,created_us,type,name,"
    "metadata_json,payload_json) SELECT {id},{status},seq % 10,1,3,7 + seq % 20,1,1,2,1,{type},CONCAT('Order ',seq),"
    "CASE WHEN seq % 3 = 0 THEN CONCAT('{{\"order\":\"',seq,'\"}}') END,"
    '\'{{"to":"someone@example.com","subject":"about one hundred bytes","body":"as real work has"}}\''
    " FROM seq_{first}_to_{last}"
)
_TYPE = "CASE WHEN seq <= 10 THEN 'rare.and.old' ELSE CONCAT('type.', seq % 50) END"
_RESULT = (
    "INSERT INTO task_result (task_id,tenant_id,status,result_json,error_json) SELECT {id},'default',{status},"
    'CASE WHEN {status} = 5 THEN \'{{"data":"{{}}"}}\' END,'
    'CASE WHEN {status} <> 5 THEN \'{{"code":"ValueError","message":"no card"}}\' END'
    " FROM seq_{first}_to_{last} WHERE {status} <> 5 OR seq % 2 = 0"
)
_LIVE = "INSERT INTO task_live (id,status,priority,due_us) SELECT {id},2,seq % 10,4e15 FROM seq_{first}_to_{last}"


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--millions", type=within(0.01), default=1.0, help="of tasks in the store")
    parser.add_argument("--rounds", type=within(1), default=5, help="the result is their median")
    parser.add_argument("--consoles", type=within(1), default=50, help="open at once")
    parser.add_argument("--seconds", type=within(0.1), default=20.0, help="of each measurement")
    chosen, watch_others = parser.parse_args(), OthersWatch()
    with ground("redis+mariadb") as where, TemporaryDirectory() as folder:
        settings = {**asyncio.run(where.fresh()), "api": {"port": 0, "grpc_port": 0, "rate": None}}
        secret = asyncio.run(prepare(settings))
        say(f"writing {chosen.millions:g} million tasks …")
        write_history(where, settings["store"]["url"], tasks=int(chosen.millions * 1e6))
        with a_cluster(Path(folder), settings, app=Path(noop_app.__file__)) as cluster:
            api = cluster.start("api", "api")
            cluster.start("scheduler", "scheduler").wait_for("leader.won")
            address = api.wait_for("api.listening")["address"]
            asked = asyncio.run(ask_lists(Visit(address, secret), rounds=chosen.rounds))
            visit = Visit(address, secret)
            share, idle = asyncio.run(watch(visit, api.pid, consoles=chosen.consoles, seconds=chosen.seconds))
    print(watch_others.spell())
    return report(asked, share=share, idle=idle, consoles=chosen.consoles)


def write_history(where: Ground, url: str, *, tasks: int) -> None:
    """Ended tasks, oldest first, evenly over the days up to now; the newest of them still wait."""
    server = where.place.server
    if server is None:
        raise ValueError("a history is made by a server")
    begin = first_id_at(SystemClock().now() - timedelta(days=DAYS))
    step = (DAYS * 86_400_000 << TIME_SHIFT) // (tasks + 1)
    names = {"id": f"{begin} + seq * {step}", "type": _TYPE}
    database = urlsplit(url).path[1:]
    ended = max(tasks - LIVE, 1)
    for first in range(1, ended + 1, CHUNK):
        span = {"first": first, "last": min(first + CHUNK - 1, ended), "status": f"({_STATUS.format(n='seq')})"}
        for statement in (_TASK, _RESULT):
            server.execute(statement.format(**names, **span), database=database)
    span = {"first": ended + 1, "last": tasks, "status": "0"}
    for statement in (_TASK, _LIVE):
        server.execute(statement.format(**names, **span), database=database)
    server.execute("ANALYZE TABLE task, task_live, task_result", database=database)


@dataclass(frozen=True, slots=True)
class Visit:
    address: str
    secret: str

    def client(self) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {self.secret}"}
        return httpx2.AsyncClient(base_url=f"{self.address}/api/v1", headers=headers, timeout=PATIENCE_S)


def filters() -> Mapping[str, str]:
    """Each that the page of tasks offers, alone and together."""
    since = (SystemClock().now() - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "first page": "",
        **{f"status {one}": f"status={one}" for one in ("SUCCESS", "FAILED", "PENDING", "PROCESSING", "CANCELLED")},
        "status FAILED, TIMEOUT": "status=FAILED&status=TIMEOUT",
        "status FAILED, PENDING": "status=FAILED&status=PENDING",
        "status BLOCKED": "status=BLOCKED",
        "type": "type=type.7",
        "type, rare and old": "type=rare.and.old",
        "type that is not there": "type=nobody",
        "type, FAILED": "type=type.1&status=FAILED",
        "type, FAILED, none": "type=type.0&status=FAILED",
        "type, PENDING, none": "type=rare.and.old&status=PENDING",
        "priority": "priority=9",
        "worker": "worker=9",
        "worker that is not there": "worker=99999",
        "text": "q=999",
        "text that is not there": "q=nothing-like-this",
        "metadata": "metadata.order=3",
        "metadata that is not there": "metadata.order=x",
        "last day": f"created_after={since}",
        "last day, text that is not there": f"created_after={since}&q=nothing-like-this",
    }


async def ask_lists(visit: Visit, *, rounds: int) -> dict[str, list[float]]:
    """Seconds that each list took, by its name."""
    found: dict[str, list[float]] = {}
    async with visit.client() as client:
        for name, query in filters().items():
            say(f"list: {name} …")
            for _ in range(rounds):
                began = time.perf_counter()
                answer = await client.get(f"/tasks?limit=50&{query}".rstrip("&"))
                found.setdefault(name, []).append(time.perf_counter() - began)
                answer.raise_for_status()
    return found


async def watch(visit: Visit, pid: int, *, consoles: int, seconds: float) -> tuple[float, float]:
    """The share of a core that the API takes with so many consoles open, and without any."""
    say("no console is open …")
    idle = await _spent(pid, seconds / 2)
    say(f"{consoles} consoles are open …")
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(visit.client())
        async with asyncio.TaskGroup() as group:
            ready = [asyncio.Event() for _ in range(consoles)]
            open_ones = [group.create_task(_look(visit, client, ready=event)) for event in ready]
            for event in ready:
                await event.wait()
            await asyncio.sleep(2)  # what each asks for at first is not what it goes on to ask for
            watched = MachineWatch()
            share = await _spent(pid, seconds)
            say(f"{watched.read(share * seconds).others:.0%} of the machine was used by others")
            for one in open_ones:
                one.cancel()
    return share, idle


async def _look(visit: Visit, client: httpx2.AsyncClient, *, ready: asyncio.Event) -> None:
    async with visit.client() as own, own.stream("GET", "/events", headers={"Accept": "text/event-stream"}) as stream:
        stream.raise_for_status()
        day_ago = (SystemClock().now() - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        paths = {path.format(day_ago=day_ago): every for path, every in OVERVIEW.items()}
        asking = [asyncio.create_task(_ask(client, path, every=every)) for path, every in paths.items()]
        ready.set()
        try:
            async for _ in stream.aiter_bytes():
                pass
        finally:
            for one in asking:
                one.cancel()


async def _ask(client: httpx2.AsyncClient, path: str, *, every: float) -> None:
    while True:
        (await client.get(path)).raise_for_status()
        await asyncio.sleep(every)


async def _spent(pid: int, seconds: float) -> float:
    before, began = cpu_seconds(pid), time.monotonic()
    await asyncio.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - began)


def report(asked: Mapping[str, Sequence[float]], *, share: float, idle: float, consoles: int) -> int:
    """What was found, beside the bars; how many of these were missed."""
    missed = 0
    print(f"{'list of tasks':<36}{'median':>10}{'worst':>10}{'bar':>10}")
    for name, times in asked.items():
        bar = FIRST_PAGE_S if name == "first page" else FILTER_S
        missed += max(times) > bar
        row = f"{name:<36}{median(times) * 1e3:>7.0f} ms{max(times) * 1e3:>7.0f} ms{bar * 1e3:>7.0f} ms"
        print(f"{row}{'  MISSED' if max(times) > bar else ''}")
    missed += share > CONSOLES_SHARE
    print(f"{consoles} consoles: {share:.1%} of a core of the API (bar {CONSOLES_SHARE:.0%}), without any {idle:.1%}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
