"""What a task costs with every role under way: submitted, dispatched, run and ended by `rota.Rota` on real servers.

`test_hot_path_costs.py` makes the calls of dispatcher and worker itself; here they make them, so that a second load or
another message for each round shows."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from statistics import quantiles

import pytest

import rota
from bench.tape import MariaDbMessage, RedisMessage, Tape, taping
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.database.migrate import upgrade
from rota.sdk import samples
from tests.support.counters import Cost, Counters, remedy
from tests.support.names import fresh_name
from tests.support.patience import PATIENT_REDIS
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.redis import RedisServer

WARM_UP = 10
LONE = 100
OF_A_LONE_TASK = {"MariaDB": (6, 6), "Redis": (10, 11)}  # messages; an acknowledgement may count with the next task
ROUNDS, BATCHES, BATCH = 5, 20, 20
# Of such a batch, as it was counted last, in the best of these rounds. In how many pieces it is run is chance, and what
# is done every second counts too, so that half of it is well, and two and a half times as much. One message more for
# each task would be four times as many.
LEAST, MOST = 0.5, 2.5
OF_A_BATCH = Cost(15, 162, 7.4, 9_000, trips=12, commands=128, redis_bytes=18_300, calls=5_400)


@dataclass(frozen=True, slots=True)
class Whole:
    """A node that plays every role."""

    app: rota.Rota
    tape: Tape
    counters: Counters

    async def run(self, tasks: int) -> None:
        """Until the last one has ended; a few messages may follow, which count with the next."""
        *_, last = await self.app.submit_many("sample_noop", [{}] * tasks)
        await last.wait()


@pytest.fixture
async def whole(mariadb_server: MariaDbServer, redis_server: RedisServer) -> AsyncIterator[Whole]:
    name = fresh_name("costs")
    mariadb_server.create_database(name)
    await upgrade(mariadb_server.url(name))
    settings = {
        "store": {"url": mariadb_server.url(name)},
        "coordinator": {"url": redis_server.url(), "prefix": name},
        "worker": {"capacity": 500},
        "metrics": {"collector": "none"},
    }
    client = RedisClient(redis_server.url(), PATIENT_REDIS)
    with taping(is_mariadb=True) as tape:
        async with rota.Rota(settings, tasks=(samples.noop,)) as app:

            async def touch() -> None:
                await app.count()

            whole = Whole(app, tape, Counters(mariadb_server, client, tape, touch))
            for _ in range(WARM_UP):
                await whole.run(BATCH)
            yield whole
    await client.close()


async def test_a_lone_task_takes_as_many_messages_as_it_may(whole: Whole) -> None:
    to_database, to_redis = [], []
    for _ in range(LONE):
        whole.tape.cut()
        await whole.run(1)
        sent = whole.tape.cut()
        to_database.append(sum(isinstance(message, MariaDbMessage) for message in sent))
        to_redis.append(sum(isinstance(message, RedisMessage) for message in sent))
    for server, counts in (("MariaDB", to_database), ("Redis", to_redis)):
        usual, (least, most) = lower_quartile(counts), OF_A_LONE_TASK[server]
        told = f"{usual:g} messages to {server}, from {least} to {most} are allowed"
        assert least <= usual <= most, f"{told}\n{remedy('OF_A_LONE_TASK of test_whole_path_costs.py')}"


async def test_tasks_of_batches_cost_about_what_they_did(whole: Whole) -> None:
    async def work() -> None:
        for _ in range(BATCHES):
            await whole.run(BATCH)

    rounds = [await whole.counters.count(work) for _ in range(ROUNDS)]
    each = Cost(*(min(costs) / BATCHES for costs in zip(*rounds, strict=True)))
    missed = each.beyond(OF_A_BATCH, least=LEAST, most=MOST)
    assert not missed, "\n".join([*missed, remedy("OF_A_BATCH of test_whole_path_costs.py")])


def lower_quartile(counts: Sequence[int]) -> float:
    """Without what only some of them met with, such as what is done every second."""
    return quantiles(counts, n=4)[0]
