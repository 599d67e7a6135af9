"""The faults that each installation without a single point of failure is built for, judged by the checker."""

from pathlib import Path

import pytest

from tests.chaos.catalogue import get_faults
from tests.chaos.ground import a_ground
from tests.chaos.measure import table
from tests.chaos.run import a_run
from tests.chaos.terrain import CLUSTER, SENTINEL, get_terrain
from tests.support.require import require_server

CHOSEN = {
    "etcd": ("etcd: leader kill -9, back after 5 s", "etcd: leader SIGSTOP, SIGCONT", "etcd: member out of reach"),
    "sentinel": (f"{SENTINEL}: primary kill -9", f"{SENTINEL}: primary kill -9, the next lacks writes"),
    "cluster": (f"{CLUSTER}: primary kill -9",),
    "sentinel+mariadb": (f"{SENTINEL}: primary kill -9",),
    "cluster+mariadb": (f"{CLUSTER}: primary kill -9",),
}


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("terrain", CHOSEN)
async def test_a_cluster_keeps_its_promises_while_its_servers_change_places(terrain: str, tmp_path: Path) -> None:
    require_server("etcd" if terrain == "etcd" else "redis")
    if terrain.endswith("+mariadb"):
        require_server("mariadb")
    async with a_ground(get_terrain(terrain), tmp_path) as ground, a_run(ground, seed=1, per_second=5) as run:
        for fault in get_faults(*CHOSEN[terrain]):
            await run.live_through(fault)
        await run.settle()
        judgement = await run.judge()
    assert not judgement.flaws, judgement.flaws[0]
    assert not judgement.violations, judgement.violations[0]
    print(table(run.measured))
    late = [one for one in run.measured if not one.is_kept]
    assert not late, table(late)
