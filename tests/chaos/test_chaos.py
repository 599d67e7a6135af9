"""The short form of `make chaos`: one terrain, the faults that tell most, judged by the checker."""

from pathlib import Path

import pytest

from tests.chaos.catalogue import get_faults
from tests.chaos.ground import a_ground
from tests.chaos.measure import table
from tests.chaos.run import a_run
from tests.chaos.terrain import get_terrain
from tests.support.require import require_server

CHOSEN = ("worker: kill -9", "leader: kill -9", "Redis: FLUSHALL", "store: reply to a COMMIT lost")
LEFT_TO_THE_SIMULATION = {"I15", "I29", "L2", "L4", "L5"}  # as the page of guarantees says


@pytest.mark.timeout(180)
async def test_a_cluster_keeps_its_promises_while_it_is_hurt(tmp_path: Path) -> None:
    require_server("redis")
    require_server("mariadb")
    async with a_ground(get_terrain("redis+mariadb"), tmp_path) as ground, a_run(ground, seed=1, per_second=5) as run:
        for fault in get_faults(*CHOSEN):
            await run.live_through(fault)
        await run.settle()
        judgement = await run.judge()
    assert not judgement.flaws, judgement.flaws[0]
    assert not judgement.violations, judgement.violations[0]
    assert set(judgement.unjudged) <= LEFT_TO_THE_SIMULATION
    assert judgement.seen["leader changed"] and judgement.seen["attempt lost"]
    late = [one for one in run.measured if not one.is_kept]
    assert not late, table(late)
