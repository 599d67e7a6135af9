"""The floor: what the servers and drivers take for the same work when there is no logic around it.

First the work is done once, by the use cases themselves or by the calls that they make of their ports, and every
message to the servers is written down (`bench/tape.py`). Then processes without logic send the same messages again, on
an equal, empty database: two that create, one that grants, two that take, read and end. A batch is granted when it
was created, and ended when it was granted, and that is all they know. MariaDB and Redis get bytes that were prepared
before; SQLite and PostgreSQL get statements through their bare drivers. SQLite has one process that does it all, as
Rota is one there, with one thread that writes: several would fight for its one lock.

No Rota of this design can be faster than that on the same machine.
"""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier, Semaphore
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import asyncmy
import hiredis

from bench.bare import BARE
from bench.forks import end_in_silence
from bench.grounds import Ground
from bench.life import Life, plan_of
from bench.tape import MariaDbMessage, Message, RedisMessage, Transaction, taping
from bench.usage import Machine, MachineWatch, cpu_seconds, per_task
from bench.workload import BATCH
from rota.config.wiring import open_node
from rota.infrastructure.event_loop import new_event_loop

STAGES = {"create": 2, "grant": 1, "end": 2}  # and how many processes do it, where servers stand between them
BEFORE = {"create": "", "grant": "create", "end": "grant"}
MOST_S = 120.0

Batches = list[list[Message]]


@dataclass(frozen=True, slots=True)
class Score:
    """All messages of the work, by stage and batch."""

    tasks: int
    stages: Mapping[str, Batches]

    @property
    def batches(self) -> int:
        return len(self.stages["create"])


async def record(where: Ground, tasks: int) -> Score:
    """Do the work once and write down what it sends."""
    plan = plan_of(await where.fresh())
    with taping(is_mariadb=where.place.name == "mariadb") as tape:
        async with open_node(plan) as node:
            sent: list[Message] = []
            life = Life(node, after_call=lambda: sent.extend(tape.cut()))
            await life.prepare()
            stages: dict[str, Batches] = {name: [] for name in STAGES}
            for start in range(0, tasks, BATCH):
                number = min(BATCH, tasks - start)
                await node.ids.keep()
                tape.cut()
                sent.clear()
                for stage, work in (
                    ("create", partial(life.create, number)),
                    ("grant", partial(life.grant, number)),
                    ("end", life.end),
                ):
                    await work()
                    stages[stage].append(sent.copy())
                    sent.clear()
    return Score(tasks, stages)


class Played(NamedTuple):
    seconds: float
    cpu: Mapping[str, float]  # microseconds for a task: of the servers, and of all who send together
    machine: Machine


def play(where: Ground, score: Score, *, first: Sequence[str] = ()) -> list[Played]:
    """Send it all again to empty servers: the stages named in `first`, if any are, and then the others."""
    settings = asyncio.run(where.fresh())
    context = get_context("fork")  # nothing runs beside it here, and the score need not travel
    done = {stage: [context.Semaphore(0) for _ in score.stages[stage]] for stage in STAGES}
    played = []
    for stages in (first, [stage for stage in STAGES if stage not in first]):
        if group := _desks(where, settings, stages=stages):
            start = context.Barrier(len(group) + 1)
            with ProcessPoolExecutor(len(group), context, _prepare, (_Shared(score, done, start),)) as pool:
                played.append(_clock(where, pool, group=group, start=start, tasks=score.tasks))
    return played


def _clock(where: Ground, pool: ProcessPoolExecutor, *, group: Sequence["Desk"], start: Barrier, tasks: int) -> Played:
    senders = [pool.submit(_send_all, desk) for desk in group]
    start.wait(MOST_S)
    began, watch = time.perf_counter(), MachineWatch()
    before = {name: cpu_seconds(pid) for name, pid in where.pids.items()}
    sent = sum(sender.result(MOST_S) for sender in senders)
    after = {name: cpu_seconds(pid) for name, pid in where.pids.items()}
    seconds = time.perf_counter() - began
    machine = watch.read(sent + sum(after[name] - before[name] for name in after))
    return Played(seconds, {**per_task(before, after, tasks=tasks), "senders": sent / tasks * 1e6}, machine)


def _desks(where: Ground, settings: Mapping[str, Any], *, stages: Sequence[str]) -> list["Desk"]:
    many = {tuple(stages): 1} if where.is_embedded else {(stage,): STAGES[stage] for stage in stages}
    return [
        Desk(work, where.place.name, _urls(where, settings), (number, those))
        for work, those in many.items()
        if work
        for number in range(those)
    ]


def _urls(where: Ground, settings: Mapping[str, Any]) -> tuple[str, str | None]:
    return settings["store"]["url"], None if where.redis is None else settings["coordinator"]["url"]


@dataclass(frozen=True, slots=True)
class Desk:
    """What one of the senders does, and where."""

    stages: Sequence[str]  # of a batch, before the next
    database: str
    urls: tuple[str, str | None]  # of the database, and of Redis
    place: tuple[int, int]  # which of how many that do the same


class _Shared(NamedTuple):
    """Given to each sender at its start."""

    score: Score
    done: Mapping[str, list[Semaphore]]  # by stage, for each batch
    start: Barrier


_shared: list[_Shared] = []  # of this process


def _prepare(shared: _Shared) -> None:
    end_in_silence()
    _shared.append(shared)
    gc.freeze()


def _send_all(desk: Desk) -> float:
    """CPU seconds that it took."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_send_batches(desk, _shared[-1]))


async def _send_batches(desk: Desk, shared: _Shared) -> float:
    number, many = desk.place
    async with _senders(desk) as send:
        shared.start.wait(MOST_S)
        spent = time.process_time()
        for place in range(number, shared.score.batches, many):
            for stage in desk.stages:
                _wait_for(shared.done.get(BEFORE[stage]), place)
                for message in shared.score.stages[stage][place]:
                    await send(message)
                shared.done[stage][place].release()
        return time.process_time() - spent


def _wait_for(done: Sequence[Semaphore] | None, place: int) -> None:
    if done is not None and not done[place].acquire(timeout=MOST_S):
        raise RuntimeError(f"nobody did what comes before with batch {place}")


Send = Callable[[Message], Awaitable[None]]


@asynccontextmanager
async def _senders(desk: Desk) -> AsyncIterator[Send]:
    database, redis = desk.urls
    async with AsyncExitStack() as stack:
        to_redis = await stack.enter_async_context(_bare_redis(redis)) if redis is not None else None
        is_mariadb = desk.database == "mariadb"
        to_mariadb = await stack.enter_async_context(messages_to_mariadb(database)) if is_mariadb else None
        bare = BARE.get(desk.database)  # where the store is a Redis there is no other
        to_other = await stack.enter_async_context(bare(database)) if bare is not None and not is_mariadb else None

        async def send(message: Message) -> None:
            match message:
                case RedisMessage() if to_redis is not None:
                    await to_redis(message)
                case MariaDbMessage() if to_mariadb is not None:
                    await to_mariadb(message)
                case Transaction() if to_other is not None:
                    await to_other(message.statements)
                case _:
                    raise RuntimeError(f"nowhere to send {message!r:.100}")

        yield send


@asynccontextmanager
async def _bare_redis(url: str) -> AsyncIterator[Callable[[RedisMessage], Awaitable[None]]]:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 24)
    answers = hiredis.Reader()

    async def send(message: RedisMessage) -> None:
        writer.write(message.packed)
        left = message.answers
        while left:
            answer = answers.gets()
            if answer is False:
                answers.feed(await reader.read(1 << 20))
            elif isinstance(answer, hiredis.ReplyError):
                raise answer
            else:
                left -= 1

    yield send
    writer.close()


@asynccontextmanager
async def messages_to_mariadb(url: str) -> AsyncIterator[Callable[[MariaDbMessage], Awaitable[None]]]:
    """Send messages as they were written down, to the connection that is for their kind."""
    parts = urlsplit(url)
    to = {"host": parts.hostname, "port": parts.port, "user": parts.username, "db": parts.path[1:]}
    reading, writing = connections = [await asyncmy.connect(**to, autocommit=commits) for commits in (True, False)]
    await writing.cursor().execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    async def send(message: MariaDbMessage) -> None:
        connection: Any = reading if message.commits_itself else writing  # what its stub says is not all
        await connection.query(message.text)
        while connection._result.has_next:
            await connection.next_result()

    yield send
    for connection in connections:
        connection.close()
