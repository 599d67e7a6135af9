"""`make chaos`: minutes of mixed faults on each ground, then the kill test that other systems were put to."""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path

import structlog

from tests.chaos.faults import NotInEffectError, list_faults
from tests.chaos.ground import TERRAINS, Terrain, a_ground
from tests.chaos.kill_all import kill_all
from tests.chaos.run import a_run, table
from tools.check_history.judge import Judgement

PER_SECOND = 20.0
KEPT = Path(".chaos")  # the histories of the last runs


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description="Hurt real clusters and judge what they recorded.")
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults on each ground (10)")
    parser.add_argument("--ground", choices=[terrain.name for terrain in TERRAINS], help="only this one")
    parser.add_argument("--seed", type=int, default=None, help="of the order of the faults (any)")
    parser.add_argument("--no-kill-test", action="store_true", help="without the test that kills all workers at once")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    is_good = True
    for terrain in TERRAINS:
        if asked.ground in (None, terrain.name):
            is_good &= asyncio.run(_hurt(terrain, seed=seed, minutes=asked.minutes))
    if not asked.no_kill_test:
        with tempfile.TemporaryDirectory() as folder:
            is_good &= asyncio.run(kill_all(Path(folder)))
    return 0 if is_good else 1


async def _hurt(terrain: Terrain, *, seed: int, minutes: float) -> bool:
    folder = KEPT / f"{terrain.name}-{seed}-{int(time.time())}"
    folder.mkdir(parents=True)
    print(f"\n== {terrain.name}: {minutes:g} minutes; history in {folder}/history")
    chance, end_at = random.Random(seed), time.monotonic() + 60 * minutes
    async with a_ground(terrain, folder.absolute()) as ground, a_run(ground, seed=seed, per_second=PER_SECOND) as run:
        faults = list_faults(ground)
        for fault in cycle(chance.sample(faults, len(faults))):
            if time.monotonic() > end_at:
                break
            try:
                recovery = await run.live_through(fault)
            except NotInEffectError as exc:
                print(f"  {fault.name}: not in effect: {exc}")
                return False
            late = "" if recovery.is_in_time else "   LATE"
            print(f"  {fault.name}: {recovery.seconds:.1f} s of {fault.bound_s:g} s{late}", flush=True)
        await run.settle()
        judgement = await run.judge()
    print(table(run.recoveries))
    _tell(judgement)
    return judgement.is_valid and not judgement.missing and all(one.is_in_time for one in run.recoveries)


def _tell(judgement: Judgement) -> None:
    for violation in judgement.violations:
        print(f"BROKEN {violation.invariant}: {violation.what}")
    print("seen: " + ", ".join(f"{count} x {what}" for what, count in judgement.seen.items()))
    if judgement.missing:
        print("never happened, so nothing is proven about it: " + ", ".join(judgement.missing))


if __name__ == "__main__":
    sys.exit(main())
