"""What work costs, counted and not timed: by the servers' own counters, by what is sent, and by the interpreter."""

import asyncio
import re
import selectors
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import bench
import tests
from bench.tape import MariaDbMessage, RedisMessage, Tape
from rota.infrastructure.coordination.redis_client import RedisClient
from tests.support.servers.mariadb import MariaDbServer

STATEMENTS = (
    "Com_insert",
    "Com_insert_select",
    "Com_update",
    "Com_update_multi",
    "Com_delete",
    "Com_delete_multi",
    "Com_select",
    "Com_commit",
    "Com_rollback",
    "Com_set_option",
)
ROWS = ("Handler_write", "Handler_update", "Handler_delete")
WANTED = ",".join(f"'{name}'" for name in (*STATEMENTS, *ROWS))
NOT_OURS = (  # how often the event loop turns is chance
    selectors.__file__,
    *(f"{Path(str(package.__file__)).parent}/" for package in (asyncio, tests, bench)),
)
COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>"}  # calls in Python 3.11 alone
LEAST_OF_BUDGET = 0.85  # what costs less has a budget that guards nothing any more
Work = Callable[[], Awaitable[None]]
_CALLS = re.compile(rb"cmdstat_([a-z|-]+):calls=(\d+)")


class Cost(NamedTuple):
    """Of a piece of work, or the most that it may cost."""

    statements: float  # that the database ran
    rows: float  # that it wrote, changed or deleted, those of its indexes' entries not among them
    messages: float  # to the database, each with an answer to wait for
    sql_bytes: float  # in them
    trips: float  # messages to Redis, each with an answer
    commands: float  # that Redis ran, those inside scripts too
    redis_bytes: float  # in the messages
    calls: float  # of Python functions

    def beyond(self, budget: "Cost", *, least: float = LEAST_OF_BUDGET, most: float = 1.0) -> list[str]:
        """What costs more than it may, or so much less that its budget is to be lowered."""
        pairs = zip(self._asdict().items(), budget, strict=True)
        judged = ((name, beyond(cost, of, least=least, most=most)) for (name, cost), of in pairs)
        return [f"{name}: {told}" for name, told in judged if told]


def beyond(cost: float, budget: float, *, least: float = LEAST_OF_BUDGET, most: float = 1.0) -> str:
    """How a count leaves its budget, if it does: these shares of it are the least and the most."""
    if cost > most * budget:
        return f"{cost:,.7g} is above the {most * budget:,.7g} that are allowed"
    if cost < least * budget:
        return f"{cost:,.7g} is below {least * budget:,.7g}, {least:.0%} of its budget, which guards nothing any more"
    return ""


def remedy(table: str) -> str:
    """What who made something dearer or cheaper is to do."""
    return f"If that is meant, raise or lower the budget in {table}, and say why in the commit."


@dataclass(frozen=True, slots=True)
class Counters:
    """The servers must be nobody else's meanwhile."""

    mariadb: MariaDbServer
    redis: RedisClient
    tape: Tape
    touch: Callable[
        [], Awaitable[None]
    ]  # uses each connection: one that idled for long is asked whether it still works

    async def count(self, work: Work) -> Cost:
        """What it costs to do this."""
        before = self._read_mariadb()
        asking = self._since(before)
        await self.touch()
        before, commands = self._read_mariadb(), await self._read_redis()
        self.tape.cut()
        with counting_calls() as calls:
            await work()
        sent, ran = self.tape.cut(), await self._read_redis()
        used = self._since(before)
        texts = [message.text for message in sent if isinstance(message, MariaDbMessage)]
        to_database = [text for text in texts if not _is_greeting(text)]
        to_redis = [message.packed for message in sent if isinstance(message, RedisMessage)]
        return Cost(
            statements=sum(used[name] - asking[name] for name in STATEMENTS) - (len(texts) - len(to_database)),
            rows=sum(used[name] - asking[name] for name in ROWS),
            messages=len(to_database),
            sql_bytes=sum(map(len, to_database)),
            trips=len(to_redis),
            commands=ran - commands,
            redis_bytes=sum(map(len, to_redis)),
            calls=calls.number,
        )

    def _read_mariadb(self) -> dict[str, int]:
        lines = self.mariadb.execute(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({WANTED})").splitlines()
        return {name: int(value) for name, _, value in (line.partition("\t") for line in lines)}

    def _since(self, before: dict[str, int]) -> dict[str, int]:
        now = self._read_mariadb()
        return {name: now[name] - before[name] for name in before}

    async def _read_redis(self) -> int:
        stats: bytes = await self.redis.command("INFO", "commandstats")
        return sum(int(calls) for name, calls in _CALLS.findall(stats) if name != b"info")


def _is_greeting(text: bytes) -> bool:
    """Whether it only prepares a connection: on a busy machine the pool may open one at any time."""
    return text.startswith(b"SET ") or b"@@" in text[:40]


@dataclass(slots=True)
class Calls:
    """Python functions that were called in this thread, but for those of the event loop and of the tests."""

    number: int = 0

    def note(self, frame: FrameType, event: str, _argument: Any) -> None:  # fixed signature: sys.setprofile
        code = frame.f_code
        if event == "call" and not code.co_filename.startswith(NOT_OURS) and code.co_name not in COMPREHENSIONS:
            self.number += 1


@contextmanager
def counting_calls() -> Iterator[Calls]:
    calls, before = Calls(), sys.getprofile()
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(before)
