"""5,000 tasks of 20 ms; all workers are killed at 40 % and restarted at once. Others were put to the same test."""

import asyncio
import json
import time
from collections import Counter
from pathlib import Path

import rota
from rota.domain.task import SUCCESS
from tests.chaos.ground import TERRAINS, Ground, a_ground
from tests.support.cluster import eventually, wait_until

TASKS, KILL_AT = 5_000, 0.4
LONGEST_S = 15.0  # from the kill to the last task
PATIENCE_S = 120.0

# Measured on a machine of two cores with the settings named; "not done" counts after 120 s.
PEERS = """\
| system | settings | not done | started twice | last one done, s after the kill |
|---|---|---:|---:|---:|
| celery | default | 37 | 0 | not all |
| celery | acks_late, reject_on_worker_lost, visibility_timeout 60 s | 0 | 6 | 101 |
| dramatiq | default | 27 | 0 | not all |
| dramatiq | heartbeat_timeout 10 s, maintenance_chance 100 000 | 0 | 16 | 8 |
| rq fork | Retry(max=3) | 5 | 0 | not all |
| arq | default | 6 | 0 | not all |
| taskiq stream | default | 205 | 0 | not all |
| huey | default | 8 | 0 | not all |
| saq | retries 3, sweep every 5 s | 0 | 17 | 85 |
| streaq | default | 0 | 11 | 67 |
| procrastinate | periodic retry of stalled jobs every 5 s | 0 | 5 | 37 |
| pgqueuer | default | 0 | 60 | 32 |
| asynq | default | 0 | 16 | 106 |"""


async def kill_all(folder: Path) -> bool:
    """Whether nothing was lost, only what ran was started twice, and all was over in time; says it beside the peers."""
    async with a_ground(TERRAINS[0], folder) as ground, rota.Rota(ground.direct, roles=()) as client:
        await client.submit_many("quick", [{}] * TASKS)
        await asyncio.to_thread(wait_until, lambda: len(_calls(ground)) >= TASKS * KILL_AT, "40 % of the tasks")
        workers = ground.live("worker")
        for worker in workers:
            worker.popen.kill()
        killed_at = time.monotonic()
        calls = _calls(ground)
        running = set(calls) - {task for task, kinds in calls.items() if "ok" in kinds}
        await asyncio.gather(*(ground.add("worker") for _ in workers))

        async def look() -> bool | None:
            return True if (await client.count()).get(SUCCESS) == TASKS else None

        await eventually(look, "every task to succeed", patience_s=PATIENCE_S)
        took_s = time.monotonic() - killed_at
        twice = {task for task, kinds in _calls(ground).items() if kinds["invoke"] > 1}
    print(f"\n== all workers killed at {KILL_AT:.0%} of {TASKS} tasks of 20 ms, restarted at once\n{PEERS}")
    print(f"| **rota** | capacity 20 | 0 | {len(twice)} ({len(running)} ran) | {took_s:.0f} |")
    return twice <= running and took_s <= LONGEST_S


def _calls(ground: Ground) -> dict[str, Counter[str]]:
    """What each task did, by its own ledger."""
    calls: dict[str, Counter[str]] = {}
    if ground.cluster.ledger.exists():
        for text in ground.cluster.ledger.read_text("utf-8").splitlines():
            line = json.loads(text)
            calls.setdefault(line["task"], Counter())[line["type"]] += 1
    return calls
