"""The primary of a Redis of several servers is killed under a cluster at work; the checker judges what was recorded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.faults import Fault
from tests.chaos.ground import Ground, Lines, Servers, admit_app, ground_on
from tests.chaos.measure import table
from tests.chaos.run import a_run
from tests.support.require import require_server
from tests.support.servers.mariadb import MariaDbOptions, MariaDbServer
from tests.support.servers.redis import RedisServer
from tests.support.servers.redis_cluster import RedisCluster
from tests.support.servers.redis_sentinel import RedisSentinels

DOWN_AFTER = timedelta(seconds=5)  # as the guide says
AWAY_S = 12.0  # longer than a failover takes
BACK_S = 6.0  # until what is away no more is in use again


@dataclass(frozen=True, slots=True)
class SeveralServers(Servers):
    """Redis is several servers, which no proxy stands before: clients find them by their own addresses."""

    several: RedisSentinels | RedisCluster

    def settings(self, lines: Lines | None = None) -> dict[str, Any]:
        return Servers.settings(self, lines) | {"coordinator": {"url": self.several.url()}}

    def find_primary(self) -> RedisServer:
        if isinstance(self.several, RedisCluster):
            return self.several.find_owner("{rota}").server
        return self.several.primary


@asynccontextmanager
async def kill_primary(ground: Ground) -> AsyncIterator[None]:
    servers = ground.servers
    assert isinstance(servers, SeveralServers)
    primary = servers.find_primary()
    primary.kill()
    yield
    assert servers.find_primary() is not primary, "nobody took its place: this proves nothing"
    await ground.restart(primary)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("topology", "bound_s"), [("sentinel", 10), ("cluster", 15)])
async def test_a_cluster_keeps_its_promises_while_redis_fails_over(
    topology: str, bound_s: float, tmp_path: Path
) -> None:
    require_server("redis")
    require_server("mariadb")
    several = RedisCluster(node_timeout=DOWN_AFTER) if topology == "cluster" else RedisSentinels(down_after=DOWN_AFTER)
    fault = Fault(f"{topology}: primary kill -9", kill_primary, bound_s, held_s=AWAY_S, rest_s=BACK_S)
    with several, MariaDbServer(MariaDbOptions(durable=True)) as store:
        admit_app(store)
        async with (
            ground_on(SeveralServers(store, None, None, several), tmp_path) as ground,
            a_run(ground, seed=1, per_second=5) as run,
        ):
            await run.live_through(fault)
            await run.settle()
            judgement = await run.judge()
    assert not judgement.violations, judgement.violations[0]
    print(table(run.measured))
    late = [one for one in run.measured if not one.is_kept]
    assert not late, table(late)
