"""How long until the fires of one minute are in the store?

    python bench/firing.py [--schedules 100000] [--rounds 2] [--only mariadb] [--late]

Every schedule is due at the same moment, the worst there is. A leader on a durable server of its own, with Redis as its
coordinator, fires them; the time runs from that moment until the last one is committed and queued. A leader that has
been there for a while has decided about them before; with `--late`, it finds them when they are due already, as the
next leader does after one was lost, and the time runs from when it looks. In the first round nothing has run before; in
the others each last run is looked up, and has ended. Exit code 1 when a round takes more than two seconds.
"""

import argparse
import asyncio
import gc
import resource
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Table, delete, func, select, text, update

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.options import parser_of, within
from bench.places import Place, place
from bench.usage import OthersWatch
from rota.application.fire import FireSchedules
from rota.application.node import Node, join
from rota.application.ports.metrics import NO_METRICS
from rota.application.ports.system import System
from rota.application.reign import Reign
from rota.config.process import MOST_YOUNG_OBJECTS
from rota.domain.firing import Firing
from rota.domain.ids import NodeId
from rota.domain.schedule import Schedule
from rota.domain.task_config import TaskConfig
from rota.domain.term import Term
from rota.infrastructure.coordination.redis.coordinator import open_redis_coordinator
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.schema import schedule_occurrence, task_config, task_live
from rota.infrastructure.event_loop import new_event_loop
from rota.infrastructure.instants import from_us
from rota.infrastructure.store.sql.config_rows import config_to_json
from rota.infrastructure.store.sql.store import sql_store
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support.servers.redis import RedisServer

PACE_US = 20_000_000  # between two fires of a schedule
MOST_S = 2.0
PART = 1000
EMPTIED_AT_ONCE = 20_000
CRONS = ("*/20 * * * * *", "0-59/20 * * * * *", "0,20,40 * * * * *", "0,20-40/20 * * * * *")
ZONES = ("UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York")
COLUMNS = ("tenant_id", "type", "revision", "next_fire_us", "config_json")


@asynccontextmanager
async def leading(where: Place, redis: str) -> AsyncIterator[tuple[Node, Database]]:
    """A node as a leader has it, and the database below it."""
    clock, random = SystemClock(), SystemRandom()
    database = open_database(await where.fresh(), clock=clock, random=random)
    try:
        async with open_redis_coordinator(redis) as coordinator:
            store = sql_store(database, random)
            system = System(clock, random)
            node = await join(NodeId("bench"), store, coordinator=coordinator, system=system, collector=NO_METRICS)
            yield node, database
    finally:
        await database.close()


async def write_configs(database: Database, count: int) -> None:
    """Schedules of the usual kind, each with a payload of its own."""
    rows = [("default", f"report-{number:06d}", 1, 0, _document(number)) for number in range(count)]
    for first in range(0, count, PART):
        part = rows[first : first + PART]

        def write(connection: Connection, part: Sequence[tuple[object, ...]] = part) -> None:
            database.bulk.insert(connection, task_config, columns=COLUMNS, rows=part)

        await database.transact(write)


def _document(number: int) -> str:
    schedule = Schedule(cron=CRONS[number % 4], zone=ZONES[number // 4 % 4])
    payload = f'{{"customer":{number},"format":"pdf"}}'
    return config_to_json(TaskConfig(type=f"report-{number:06d}", payload=payload, schedule=schedule))


async def make_due(database: Database, *, is_late: bool) -> datetime:
    """All of them are due at one moment, just past or ten seconds and more to come, and what ran before has ended."""

    def work(connection: Connection) -> int:
        last = database.now_us(connection) // PACE_US * PACE_US
        at = (
            last
            if is_late
            else last + 2 * PACE_US - (PACE_US if database.now_us(connection) - last < PACE_US // 3 else 0)
        )
        connection.execute(update(task_config).values(next_fire_us=at))
        return at

    for table in (schedule_occurrence, task_live):
        while await database.transact(partial(_empty, table=table)):
            pass
    return from_us(await database.transact(work))


def _empty(connection: Connection, *, table: Table) -> int:
    """Delete some, as many as one call has time for."""
    if connection.dialect.name in ("mysql", "mariadb"):
        some = f"DELETE FROM {table.name} LIMIT {EMPTIED_AT_ONCE:d}"  # noqa: S608 a name of our own schema
        return connection.execute(text(some)).rowcount
    return connection.execute(delete(table)).rowcount


async def count_fired(database: Database) -> int:
    query = select(func.count()).select_from(schedule_occurrence).where(schedule_occurrence.c.task_id > 0)
    return await database.read(lambda connection: int(connection.execute(query).scalar_one()), deadline_s=30)


async def measure(where: Place, redis: str, *, options: argparse.Namespace) -> list[float]:
    """Seconds of each round."""
    taken = []
    async with leading(where, redis) as (node, database):
        await write_configs(database, options.schedules)
        for number in range(options.rounds):
            due_at = await make_due(database, is_late=options.late)
            await node.ids.keep()
            gc.collect()
            gc.freeze()
            taken.append(await fire(node, where, due_at=None if options.late else due_at, number=number + 1))
            fired = await count_fired(database)
            if fired != options.schedules:
                raise RuntimeError(f"{options.schedules - fired} did not fire")
            print(
                f"  {where.name}, round {number + 1}: {fired:,} fired in {taken[-1]:.2f} s, {fired / taken[-1]:,.0f}/s",
                flush=True,
            )
    return taken


@dataclass(slots=True)
class Watched(FireSchedules):
    """As it is, but that it says when it was done; it goes on to look for what is next."""

    done_at: datetime | None = None

    async def _write(self, part: Sequence[Firing], reign: Reign) -> None:
        await FireSchedules._write(self, part, reign)
        self.done_at = self.node.time.now()


async def fire(node: Node, where: Place, *, due_at: datetime | None, number: int) -> float:
    """Lead until all is fired; the seconds since it was due."""
    duty, reign = Watched(node), Reign(Term(1, trusted_until=float("inf")), node.clock)
    spent = Spent(where)
    while due_at is not None and node.time.now() < due_at:
        await duty(reign)
        await node.clock.sleep(duty.pause())
    if due_at is not None:
        spent.tell("before")
        spent = Spent(where)
    began = node.time.now() if due_at is None else due_at
    await duty(reign)
    spent.tell("then")
    return ((duty.done_at or node.time.now()) - began).total_seconds()


class Spent:
    """CPU that the leader and the server use."""

    def __init__(self, where: Place) -> None:
        self._where = where
        self._own, self._server = _own_cpu(), where.cpu_seconds()

    def tell(self, when: str) -> None:
        own, server = _own_cpu() - self._own, self._where.cpu_seconds() - self._server
        print(f"  {when}: leader {own:.2f} s, server {server:.2f} s of CPU", flush=True)


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str]) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--schedules", type=within(1), default=100_000, help="that are due together")
    parser.add_argument("--rounds", type=within(1), default=2, help="the result is their median")
    parser.add_argument("--late", action="store_true", help="as after an outage")
    parser.add_argument("--only", choices=("mariadb", "postgres", "sqlite"), default="mariadb", help="this alone")
    options, watch = parser.parse_args(arguments), OthersWatch()
    with RedisServer() as redis, place(options.only) as where:
        gc.set_threshold(MOST_YOUNG_OBJECTS)  # as a server has it
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            taken = runner.run(measure(where, redis.url(), options=options))
    print(watch.spell())
    print(f"the slowest of {len(taken)} took {max(taken):.2f} s, wanted {MOST_S:.0f} s")
    return 0 if max(taken) <= MOST_S else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
