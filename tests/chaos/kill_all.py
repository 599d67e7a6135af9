"""5,000 tasks of 20 ms; all workers are killed at 40 % and restarted at once. Others were put to the same test."""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rota
from rota.domain.task import SUCCESS
from tests.chaos.ground import a_plain_cluster
from tests.chaos.terrain import Terrain
from tests.support.cluster import Cluster, eventually, wait_until

TASKS, KILL_AT = 5_000, 0.4
SCHEDULERS, WORKERS = 1, 2
LONGEST_GAP_S = 15.0
PATIENCE_S = 120.0
Line = dict[str, Any]

# Measured on a machine of two cores with the settings named; "not done" counts after 120 s.
PEERS = """\
| system | settings | ran at the kill | not done | started twice | last one done, s after the kill |
|---|---|---:|---:|---:|---:|
| celery | default | 7 | 37 | 0 | not all |
| celery | acks_late, reject_on_worker_lost, visibility_timeout 60 s | 6 | 0 | 6 | 101 |
| dramatiq | default | 16 | 27 | 0 | not all |
| dramatiq | heartbeat_timeout 10 s, maintenance_chance 100 000 | 16 | 0 | 16 | 8 |
| rq fork | Retry(max=3) | 4 | 5 | 0 | not all |
| arq | default | 5 | 6 | 0 | not all |
| taskiq stream | default | 16 | 205 | 0 | not all |
| huey | default | 8 | 8 | 0 | not all |
| saq | retries 3, sweep every 5 s | 16 | 0 | 17 | 85 |
| streaq | default | 11 | 0 | 11 | 67 |
| procrastinate | periodic retry of stalled jobs every 5 s | 4 | 0 | 5 | 37 |
| pgqueuer | default | 40 | 0 | 60 | 32 |
| asynq | default | 16 | 0 | 16 | 106 |"""


@dataclass(frozen=True, slots=True)
class Killed:
    """What became of the tasks on one terrain."""

    terrain: str
    lost: int
    running: frozenset[str]
    twice: frozenset[str]
    gap_s: float  # the longest time in which no task ended, from the kill on
    took_s: float

    @property
    def is_kept(self) -> bool:
        return not self.lost and self.twice <= self.running and self.gap_s <= LONGEST_GAP_S

    def __str__(self) -> str:
        row = f"| **rota** {self.terrain} | default | {len(self.running)} | {self.lost} | {len(self.twice)} |"
        return f"{row} {self.took_s:.0f}, longest gap {self.gap_s:.1f}{'' if self.is_kept else ' MISSED'} |"


async def kill_all(terrain: Terrain | None, folder: Path) -> Killed:
    """Default settings, and nothing but the addresses of the servers is said."""
    async with a_plain_cluster(terrain, folder) as (cluster, _), rota.Rota(cluster.settings, roles=()) as client:
        cluster.start_all("scheduler", *(f"scheduler-{number}" for number in range(SCHEDULERS)))
        workers = cluster.start_all("worker", *(f"worker-{number}" for number in range(WORKERS)))
        await client.submit_many("quick", [{}] * TASKS)
        await asyncio.to_thread(wait_until, lambda: _count_begun(cluster) >= TASKS * KILL_AT, "40 % of the tasks")
        for worker in workers:
            worker.popen.kill()
        for worker in workers:
            worker.popen.wait()
        killed_at = time.monotonic()
        unfinished = await _list_unfinished(client)
        begun = _calls(cluster).keys()
        again = [cluster.launch("worker", worker.name) for worker in workers]
        lost = TASKS - await _count_done(client)
        calls = _calls(cluster)
        for worker in again:
            worker.stop()
    ends = sorted(call["at"] for kinds in calls.values() for call in kinds if call["type"] == "ok")
    return Killed(
        terrain="sqlite" if terrain is None else terrain.name,
        lost=lost,
        running=frozenset(unfinished & begun),
        twice=frozenset(task for task, kinds in calls.items() if Counter(one["type"] for one in kinds)["invoke"] > 1),
        gap_s=_longest_gap(killed_at, ends),
        took_s=ends[-1] - killed_at,
    )


def beside_the_peers(results: Sequence[Killed]) -> str:
    lines = [f"\n== all workers killed at {KILL_AT:.0%} of {TASKS} tasks of 20 ms, restarted at once", PEERS]
    return "\n".join([*lines, *map(str, results)])


async def _count_done(client: rota.Rota) -> int:
    """Once all have succeeded, or patience has ended."""

    async def look() -> int | None:
        return TASKS if (await client.count()).get(SUCCESS) == TASKS else None

    try:
        return await eventually(look, "every task to succeed", patience_s=PATIENCE_S)
    except AssertionError:
        return (await client.count()).get(SUCCESS, 0)


async def _list_unfinished(client: rota.Rota) -> set[str]:
    """What the workers held when they were killed: begun, or on its way to them, or done and not yet written."""
    found = await client._node.store.tasks.list_running(after=None, limit=TASKS)
    return {str(live.id) for live in found}


def _longest_gap(begin: float, ends: Sequence[float]) -> float:
    moments = [begin, *(end for end in ends if end > begin)]
    return max((later - earlier for earlier, later in itertools.pairwise(moments)), default=PATIENCE_S)


def _count_begun(cluster: Cluster) -> int:
    return cluster.ledger.read_bytes().count(b'"invoke"') if cluster.ledger.exists() else 0


def _calls(cluster: Cluster) -> dict[str, list[Line]]:
    """What each task did, by its own ledger."""
    calls: dict[str, list[Line]] = {}
    if cluster.ledger.exists():
        for text in cluster.ledger.read_text("utf-8").splitlines():
            line = json.loads(text)
            calls.setdefault(line["task"], []).append(line)
    return calls
