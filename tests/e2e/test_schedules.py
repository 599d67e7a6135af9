"""Schedules fire whoever leads."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

import rota
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import Occurrence
from tests.support.cluster import REPOSITORY, a_cluster, eventually

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow]
TICK = "tick"
TICKS = REPOSITORY / "tests/support/schedule_app.py"  # not imported: it would tick in every Rota of this process
FIRST, LAST = 3, 25  # occurrences before the first leader is killed, and at the end


async def test_every_target_is_fired_once_although_leaders_are_killed(tmp_path: Path) -> None:
    settings = {"store": {"url": f"sqlite:///{tmp_path}/rota.db"}, "coordinator": {"url": "sql://"}}
    with a_cluster(tmp_path, settings, app=TICKS) as cluster:
        cluster.start_all("scheduler", "scheduler-1", "scheduler-2", "scheduler-3")
        cluster.start("worker", "worker")
        async with rota.Rota(settings, roles=()) as client:
            store = client._node.store

            async def fired(number: int) -> list[Occurrence] | None:
                found = await store.schedules.list_occurrences(DEFAULT_TENANT, TICK, limit=1000)
                return found[::-1] if len(found) >= number else None

            await eventually(lambda: fired(FIRST), "the first targets")
            for more in (8, 16):
                leader = cluster.leader()
                await asyncio.to_thread(leader.kill)
                await eventually(lambda number=FIRST + more: fired(number), "targets under the next leader")  # type: ignore[misc]
            occurrences = await eventually(lambda: fired(LAST), "the last targets")
            tasks = await store.tasks.load([one.task_id for one in occurrences if one.task_id is not None])
            last = max(tasks)
            await client.wait(str(last), "30s")
        assert {b.fire_at - a.fire_at for a, b in pairwise(occurrences)} == {timedelta(seconds=1)}, "no gap, no double"
        assert [one.reason for one in occurrences] == [""] * len(occurrences)
        assert len(tasks) == len(occurrences)
        assert all(runs == 1 for runs in cluster.runs("ticked").values())
