"""The floor under a lone task: it is passed along the same way, by the same servers, and nobody thinks about it.

First lone tasks are created, granted, read and ended by the calls that the use cases make of their ports, and what that
sends to the database is written down (`bench/tape.py`). Then the same messages are sent again to an equal, empty
database. With servers a process creates, another one, which waits at a list in Redis, grants, and a third, which waits
at another list, reads: six messages in a row (ADR-0017), or as many as there are by now. Embedded, one thread does it
all.

How far above that a lone task is, is what our code takes; the rest is this machine, at this moment.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from multiprocessing import get_context
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import hiredis

from bench.bare import BARE
from bench.floor import messages_to_mariadb
from bench.forks import end_in_silence
from bench.life import Life
from bench.places import Place
from bench.tape import MariaDbMessage, Message, Transaction, taping
from rota.application.node import Node, join
from rota.application.ports.metrics import NO_METRICS
from rota.application.ports.system import System
from rota.domain.ids import NodeId
from rota.infrastructure.coordination.memory import memory_coordinator
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.event_loop import new_event_loop
from rota.infrastructure.store.sql.store import sql_store
from rota.infrastructure.system import SystemClock, SystemRandom

READY, ASSIGNED, DONE = "floor:ready", "floor:assigned", "floor:done"  # lists in Redis
MOST_S = 120

Send = Callable[[Sequence[Message]], Awaitable[None]]
Ask = Callable[..., Awaitable[Any]]  # a command of Redis, word by word


class Steps(NamedTuple):
    """What the life of a lone task sends to the database."""

    create: Sequence[Message]
    grant: Sequence[Message]
    read: Sequence[Message]
    end: Sequence[Message]


class Passed(NamedTuple):
    """When a task was asked for, when it could have started, and when its end was visible; seconds since 1970."""

    asked_at: float
    started_at: float
    seen_at: float


Pass = Callable[[], Awaitable[Passed]]  # the next task


async def record(where: Place, tasks: int) -> list[Steps]:
    """Let tasks live, one by one, and write down what they send to a database of their own."""
    with taping(is_mariadb=where.name == "mariadb") as tape:
        async with _node(await where.fresh()) as node:
            sent: list[list[Message]] = []
            life = Life(node, after_call=lambda: sent.append(tape.cut()))
            await life.prepare()
            await node.ids.keep()
            steps = []
            for _ in range(tasks):
                tape.cut()
                sent.clear()
                await life.create(1)
                await life.grant(1)
                await life.end()
                steps.append(Steps(*(part for part in sent if part)))
    return steps


@asynccontextmanager
async def _node(url: str) -> AsyncIterator[Node]:
    """One that sends to its database only."""
    system = System(SystemClock(), SystemRandom())
    database = open_database(url, clock=system.clock, random=system.random)
    coordinator = memory_coordinator(system.clock)
    try:
        store = sql_store(database, system.random)
        yield await join(NodeId("bench"), store, coordinator=coordinator, system=system, collector=NO_METRICS)
    finally:
        await database.close()


@asynccontextmanager
async def floor_of(where: Place, redis: str | None, *, steps: Sequence[Steps]) -> AsyncIterator[Pass]:
    """Pass tasks along on an empty database, as many as there are steps; without a Redis, in this thread."""
    url = await where.fresh()
    if redis is None:
        async with _sender(where.name, url) as send:
            yield _alone(send, iter(steps))
        return
    context = get_context("spawn")  # this process has a loop and threads already
    desks = [Desk(role, where.name, url, redis, steps) for role in (_grant_all, _read_all)]
    others = [context.Process(target=_sit, args=(desk,), daemon=True) for desk in desks]
    for other in others:
        other.start()
    try:
        async with _sender(where.name, url) as send, _asking(redis) as ask:
            for _ in others:
                await ask("BLPOP", DONE, MOST_S)  # it waits for its first
            yield _with_others(send, ask, steps=iter(steps))
    finally:
        for other in others:
            other.terminate()
            other.join(MOST_S)


def _alone(send: Send, steps: Iterator[Steps]) -> Pass:
    async def pass_one() -> Passed:
        step = next(steps)
        asked_at = time.time()
        await send(step.create)
        await send(step.grant)
        await send(step.read)
        started_at = time.time()
        await send(step.end)
        return Passed(asked_at, started_at, time.time())

    return pass_one


def _with_others(send: Send, ask: Ask, *, steps: Iterator[Steps]) -> Pass:
    async def pass_one() -> Passed:
        asked_at = time.time()
        await send(next(steps).create)
        await ask("RPUSH", READY, "1")
        _, started_at = await ask("BLPOP", DONE, MOST_S)
        return Passed(asked_at, float(started_at), time.time())

    return pass_one


class Desk(NamedTuple):
    """What one of the other processes does, and where."""

    work: Callable[["Desk"], Coroutine[Any, Any, None]]
    database: str
    url: str
    redis: str
    steps: Sequence[Steps]


def _sit(desk: Desk) -> None:
    end_in_silence()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(desk.work(desk))


async def _grant_all(desk: Desk) -> None:
    async with _sender(desk.database, desk.url) as send, _asking(desk.redis) as ask:
        await ask("RPUSH", DONE, "0")
        for step in desk.steps:
            await ask("BLPOP", READY, MOST_S)
            await send(step.grant)
            await ask("RPUSH", ASSIGNED, "1")


async def _read_all(desk: Desk) -> None:
    async with _sender(desk.database, desk.url) as send, _asking(desk.redis) as ask:
        await ask("RPUSH", DONE, "0")
        for step in desk.steps:
            await ask("BLPOP", ASSIGNED, MOST_S)
            await send(step.read)
            started_at = time.time()
            await send(step.end)
            await ask("RPUSH", DONE, str(started_at))


@asynccontextmanager
async def _sender(database: str, url: str) -> AsyncIterator[Send]:
    if database == "mariadb":
        async with messages_to_mariadb(url) as send_one:

            async def send_all(messages: Sequence[Message]) -> None:
                for message in messages:
                    if isinstance(message, MariaDbMessage):
                        await send_one(message)

            yield send_all
        return
    async with BARE[database](url) as send_statements:

        async def send(messages: Sequence[Message]) -> None:
            for message in messages:
                if isinstance(message, Transaction):
                    await send_statements(message.statements)

        yield send


@asynccontextmanager
async def _asking(url: str) -> AsyncIterator[Ask]:
    """One command and its answer at a time."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    answers = hiredis.Reader()

    async def ask(*words: str | int) -> Any:
        writer.write(hiredis.pack_command(words))  # type: ignore[arg-type]  # its stub says a tuple of one
        while (answer := answers.gets()) is False:
            answers.feed(await reader.read(1 << 16))
        if answer is None or isinstance(answer, hiredis.ReplyError):
            raise RuntimeError(f"{words[0]} was answered with {answer!r}")
        return answer

    yield ask
    writer.close()
