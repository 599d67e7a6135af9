"""`make chaos`: minutes of mixed faults on each terrain, crowds, and the kill test that other systems were put to."""

import argparse
import asyncio
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import structlog

from tests.chaos.catalogue import (
    FAULTS,
    WITH_SMALL_DISK,
    describe_terrains,
    get_faults,
    list_faults,
    list_terrains,
    shuffle_faults,
)
from tests.chaos.crowds import Crowd, list_crowds
from tests.chaos.faults import Fault
from tests.chaos.ground import Ground, a_ground
from tests.chaos.kill_all import Killed, beside_the_peers, kill_all
from tests.chaos.measure import Measured, table
from tests.chaos.run import a_run
from tests.chaos.terrain import SMALL, SQL, TERRAINS, Terrain, has_small_disks
from tools.check_history.judge import Judgement
from tools.check_history.report import describe_seen

KEPT = Path(".chaos")  # the histories of the last runs
PARTS = ("faults", "crowds", "kill")


def main() -> int:
    asked = parse(sys.argv[1:])
    if asked.list:
        _say(list_names())
        return 0
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(10**6)
    _say(f"seed {seed}")
    terrains: list[Terrain] = asked.terrains
    measured: list[Measured] = []
    killed: list[Killed] = []
    troubles: list[str] = []
    wanted: list[Fault] = []
    if "faults" in asked.parts:
        wanted = get_faults(*asked.fault) or list_faults(terrains)
        for terrain in terrains:
            with _noting(terrain.name, troubles):
                troubles += _hurt(terrain, measured, seed=seed, asked=asked)
    if "crowds" in asked.parts:
        for crowd in list_crowds(terrains):
            with _noting("a crowd", troubles):
                measured.append(_try(crowd))
    if "kill" in asked.parts:
        for ground in (*terrains, *(() if asked.terrain else (None,))):
            with _noting("the kill test", troubles):
                killed.append(_kill(ground))
        _say(beside_the_peers(killed))
    tried = {one.what for one in measured}
    _say(f"\n{table(measured, untried=[fault.untried for fault in wanted if fault.name not in tried])}")
    troubles += [f"missed: {one}" for one in measured if not one.is_kept]
    troubles += [f"kill test: {one}" for one in killed if not one.is_kept]
    _say("\n".join(["", *troubles, "NOT all is well" if troubles else "all is well"]))
    return 1 if troubles else 0


@contextmanager
def _noting(what: str, troubles: list[str]) -> Iterator[None]:
    """Whatever goes wrong is told in the end, and what follows is tried all the same: nobody may be looking."""
    try:
        yield
    except Exception as exc:
        traceback.print_exc()
        troubles.append(f"{what}: {_words(exc)}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description="Hurt real clusters and judge what they recorded.")
    # Not by `choices`: with those, Python 3.11 refuses to be told none.
    parser.add_argument("parts", nargs="*", metavar="|".join(PARTS), help="which of it (all)")
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults on each terrain (10)")
    parser.add_argument("--terrain", choices=[terrain.name for terrain in TERRAINS], help="only this one")
    parser.add_argument("--seed", type=int, default=None, help="of the order of the faults (any)")
    names = [fault.name for fault in FAULTS]
    help_of_fault = "just this one, and nothing but faults; may be repeated, to be brought in this order"
    parser.add_argument("--fault", action="append", choices=names, default=[], metavar="NAME", help=help_of_fault)
    parser.add_argument("--list", action="store_true", help="the names of all faults, and do nothing")
    asked = parser.parse_args(arguments)
    possible = list_terrains(*get_faults(*asked.fault))
    asked.terrains = [terrain for terrain in possible if asked.terrain in (None, terrain.name)]
    if not asked.terrains:
        where = ", ".join(terrain.name for terrain in possible) or "nowhere at once"
        parser.error(f"{asked.terrain or 'no terrain'} cannot be hurt so; what can: {where}")
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    asked.parts = asked.parts or (["faults"] if asked.fault else list(PARTS))
    return asked


def list_names() -> str:
    """What can be typed after --fault, with the bound, and where it can happen."""
    width = max(len(fault.name) for fault in FAULTS)
    return "\n".join(
        f"{fault.name:<{width}}  ≤ {fault.bound_s:>2g} s from its {fault.since:<5}  {describe_terrains(fault)}"
        for fault in FAULTS
    )


def _hurt(terrain: Terrain, measured: list[Measured], *, seed: int, asked: argparse.Namespace) -> list[str]:
    """What went wrong in the mixed run, and in a short one whose disk runs full."""
    if asked.fault:
        return asyncio.run(_run(terrain, measured, seed=seed, faults=get_faults(*asked.fault)))
    _say(f"\n== {terrain.name}: {asked.minutes:g} minutes")
    troubles = asyncio.run(_run(terrain, measured, seed=seed, minutes=asked.minutes))
    if SQL not in terrain.traits:
        return troubles
    if not has_small_disks():
        _say("  SKIPPED store: disk full: only root can make a small disk")
        return troubles
    _say(f"\n== {terrain.name}: a disk that runs full")
    return troubles + asyncio.run(_run(terrain, measured, seed=seed, faults=get_faults(*WITH_SMALL_DISK)))


async def _run(
    terrain: Terrain, measured: list[Measured], *, seed: int, minutes: float = 0.0, faults: Sequence[Fault] = ()
) -> list[str]:
    folder = KEPT / f"{terrain.name}-{seed}-{int(time.time())}"
    folder.mkdir(parents=True)
    is_small = any(SMALL in fault.needs for fault in faults)
    troubles: list[str] = []
    async with (
        a_ground(terrain, folder.absolute(), is_disk_small=is_small) as ground,
        a_run(ground, seed=seed) as run,
    ):
        began_at = time.monotonic()
        for fault in faults or _draw(ground, seed=seed, minutes=minutes):
            with _noting(f"{terrain.name}: {fault.name}", troubles):
                told = await run.live_through(fault)
                _say(f"  {(time.monotonic() - began_at) / 60:4.1f} min  {told}")
            await ground.restore()
        with _noting(terrain.name, troubles):
            await run.settle()
        judgement = await run.judge()
    measured += run.measured
    _say(f"judged: {folder}/history")
    _tell(judgement)
    troubles += [f"{terrain.name}: BROKEN {one.invariant}: {one.what}" for one in judgement.violations]
    troubles += [f"{terrain.name}: the history is not whole: {flaw.where}: {flaw.what}" for flaw in judgement.flaws]
    if judgement.missing and not faults:
        troubles.append(f"{terrain.name}: too thin to prove anything: no {', no '.join(judgement.missing)}")
    return troubles


def _draw(ground: Ground, *, seed: int, minutes: float) -> Iterator[Fault]:
    """All faults, again and again until the time is over."""
    end_at = time.monotonic() + 60 * minutes
    for fault in cycle(shuffle_faults(ground, random.Random(seed))):
        if time.monotonic() > end_at:
            return
        yield fault


def _try(crowd: Crowd) -> Measured:
    measured = asyncio.run(crowd())
    _say(str(measured))
    return measured


def _kill(terrain: Terrain | None) -> Killed:
    with tempfile.TemporaryDirectory() as folder:
        killed = asyncio.run(kill_all(terrain, Path(folder)))
    _say(f"kill test: {killed}")
    return killed


def _tell(judgement: Judgement) -> None:
    for violation in judgement.violations:
        _say(f"BROKEN {violation.invariant}: {violation.what}")
    for line in describe_seen(judgement.seen):
        _say(line)
    _say(f"not judged, since there are no lines about it: {', '.join(judgement.unjudged)}")


def _words(error: BaseException) -> str:
    """What it says, or what those say that it is made of."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(_words, error.exceptions))
    return f"{type(error).__name__}: {error}"


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
