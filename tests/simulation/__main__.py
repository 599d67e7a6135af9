"""`make sim SEEDS=n`: many seeds on all cores. `make sim SEED=n`: one, with its whole history. `SHARED=1`: all pods
dispatch."""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from rich.progress import track

from tests.simulation.crowd import play_all
from tests.simulation.play import Played, play
from tools.check_history.judge import SOMETIMES

HISTORY = Path(".sim")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sim", description="Simulate clusters with faults drawn from seeds.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--seed", type=int, default=None, help="only this one; its history goes to .sim/")
    parser.add_argument("--shared", action="store_true", help="all pods dispatch, not the leader alone")
    asked = parser.parse_args()
    if asked.seed is not None:
        return _show(play(asked.seed, is_shared=asked.shared))
    began_at = time.monotonic()
    seen, failed = Counter[str](), []
    seeds = range(asked.first, asked.first + asked.seeds)
    for played in track(play_all(seeds, is_shared=asked.shared), "seeds", total=asked.seeds):
        seen += played.judgement.seen
        if played.judgement.violations:
            failed.append(played)
    for played in failed:
        print(f"seed {played.seed}: {played.judgement.violations[0].what}; try: make sim SEED={played.seed}")
    print(f"{asked.seeds} seeds, {len(failed)} with a broken promise, {time.monotonic() - began_at:.0f} s")
    print("seen: " + ", ".join(f"{count} x {what}" for what, count in seen.items()))
    missing = [what for what in SOMETIMES if not seen[what]]
    if missing:
        print("never happened, so nothing is proven about it: " + ", ".join(missing))
    return 1 if failed or missing else 0


def _show(played: Played) -> int:
    folder = HISTORY / f"seed-{played.seed}"  # of its own: what lies in one folder is judged as one cluster
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in played.lines))
    violations = played.judgement.violations
    for violation in violations:
        print(f"{violation.invariant}: {violation.what}")
    print(
        f"seed {played.seed}: {'a promise is broken' if violations else 'all promises kept'}; {len(played.lines)} lines"
    )
    print(f"try: .venv/bin/python -m tools.check_history {folder} (one seed alone is often too thin to prove anything)")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
