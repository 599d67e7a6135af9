"""Schedules that fire every second or so, while whoever leads is killed again and again right after it has fired."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

import rota
from rota.application.manage_configs import ManageConfigs
from rota.application.node import Node
from rota.application.submit import SubmitTasks
from rota.domain.cron.dialect import Dialect
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import OnMissed, Overlap, Schedule
from rota.domain.task_config import TaskConfig
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.database.schema import task
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support import cluster_app
from tests.support.cluster import Cluster, Process, a_cluster, eventually
from tests.support.names import fresh_name
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.redis import RedisServer

KILLS = 50
STANDBY = 3  # schedulers at any time
SECOND = timedelta(seconds=1)
WHEN: Mapping[str, dict[str, object]] = {  # how it is written; the number in the name says how many seconds apart
    "cron-1": {"cron": "* * * * * *"},
    "cron-2": {"cron": "*/2 * * * * *", "zone": "Asia/Shanghai"},
    "cron-3": {"cron": "0/3 * * * * ?", "dialect": Dialect.QUARTZ, "zone": "America/New_York"},
    "every-1": {"every": SECOND},
    "every-5": {"every": 5 * SECOND, "jitter": SECOND},
    **{f"many-1-{number}": {"cron": "*/1 * * * * *"} for number in range(20)},
}


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_every_target_is_fired_once_although_fifty_leaders_are_killed(
    tmp_path: Path, redis_server: RedisServer, mariadb_server: MariaDbServer
) -> None:
    name = fresh_name("fires")
    mariadb_server.create_database(name)
    url = mariadb_server.url(name)
    await upgrade(url)
    settings = {
        "store": {"url": url},
        "coordinator": {"url": redis_server.url(), "prefix": name},
        "scheduler": {"leader_ttl": "2s", "renew_interval": "500ms"},
    }
    with a_cluster(tmp_path, settings, app=Path(cluster_app.__file__)) as cluster:
        cluster.start_all("scheduler", *(f"scheduler-{number}" for number in range(STANDBY)))
        async with rota.Rota(settings, roles=()) as client:
            node = client._node
            begin = await put_schedules(node)
            killed: Process | None = None
            for number in range(KILLS):
                killed = await kill_leader(cluster, node, after=killed)
                cluster.launch("scheduler", f"scheduler-{STANDBY + number}")
            end = await node.store.tasks.now()
            fired = {one: await list_fired(node, one, until=end) for one in WHEN}
    wanted = {one: list_targets(begin, end, apart=int(one.split("-")[1])) for one in WHEN}
    assert fired == wanted, "none missed, none doubled"
    made = await count_tasks(url, until=end)
    assert made == Counter({(one, at): 1 for one, targets in wanted.items() for at in targets})


async def put_schedules(node: Node) -> datetime:
    """The first moment that may be a target."""
    soon = int(node.time.now().timestamp()) + 3
    begin = datetime.fromtimestamp(soon - soon % -5, UTC)  # a multiple of all paces that are counted from here
    configs = ManageConfigs(node, SubmitTasks(node))
    for name, when in WHEN.items():
        facts = {"start_at": begin, "overlap": Overlap.ALLOW, "on_missed": OnMissed.RUN_ALL, "missed_limit": 1000}
        await configs.put(TaskConfig(type=name, schedule=Schedule(**facts, **when)))  # type: ignore[arg-type]
    return begin


async def kill_leader(cluster: Cluster, node: Node, *, after: Process | None) -> Process:
    """Kill the leader that follows on one when it has fired, and say which it was."""

    async def newest() -> datetime | None:
        found = await node.store.schedules.list_occurrences(DEFAULT_TENANT, "cron-1", limit=1)
        return found[0].fire_at if found else None

    async def new_leader() -> Process | None:
        leader = await asyncio.to_thread(cluster.find_leader)
        return leader if leader is not after else None

    before = await newest()
    leader = await eventually(new_leader, "a leader", patience_s=60)

    async def has_fired() -> bool | None:
        return True if await newest() not in (None, before) else None

    await eventually(has_fired, "a target", patience_s=60)
    await asyncio.to_thread(leader.kill)
    return leader


def list_targets(begin: datetime, end: datetime, *, apart: int) -> list[datetime]:
    """By counting seconds, with nothing of what fires them."""
    seconds = range(int(begin.timestamp()), int(end.timestamp()) + 1)
    return [datetime.fromtimestamp(second, UTC) for second in seconds if second % apart == 0]


async def list_fired(node: Node, task_type: str, *, until: datetime) -> list[datetime]:
    """What was fired by then, once the schedule has come that far."""
    apart = int(task_type.split("-")[1])

    async def look() -> list[datetime] | None:
        found = await node.store.schedules.list_occurrences(DEFAULT_TENANT, task_type, limit=100_000)
        assert all(one.task_id is not None for one in found), "nothing is skipped"
        times = [one.fire_at for one in found[::-1]]
        return times if times and times[-1] > until - apart * SECOND else None

    return [at for at in await eventually(look, f"the targets of {task_type}", patience_s=60) if at <= until]


async def count_tasks(url: str, *, until: datetime) -> Counter[tuple[str, datetime]]:
    """How many tasks there are of each target."""
    database = open_database(url, clock=SystemClock(), random=SystemRandom())
    query = select(task.c.type, task.c.scheduled_us, func.count()).group_by(task.c.type, task.c.scheduled_us)
    try:
        rows = await database.read(lambda connection: connection.execute(query).fetchall())
    finally:
        await database.close()
    times = ((name, datetime.fromtimestamp(at_us // 10**6, UTC), number) for name, at_us, number in rows)
    return Counter({(name, at): number for name, at, number in times if at <= until})
