"""`make sim SEEDS=n`: many seeds on all cores. `make sim SEED=n`: one, with its timeline, its log and its history.
`SHARED=1`: all pods dispatch."""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TextIO

import structlog
from rich.progress import track
from structlog.typing import EventDict

from tests.simulation import timeline
from tests.simulation.crowd import play_all
from tests.simulation.play import play
from tools.check_history.judge import list_missing
from tools.check_history.report import describe_seen

KEPT = Path(".sim")  # the last run of each seed that was played alone


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sim", description="Simulate clusters with faults drawn from seeds.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--seed", type=int, default=None, help="only this one; its log and its history go to .sim/")
    parser.add_argument("--shared", action="store_true", help="all pods dispatch, not the leader alone")
    asked = parser.parse_args()
    if asked.seed is not None:
        return _show(asked.seed, is_shared=asked.shared)
    began_at = time.monotonic()
    seen, failed = Counter[str](), []
    seeds = range(asked.first, asked.first + asked.seeds)
    for played in track(play_all(seeds, is_shared=asked.shared), "seeds", total=asked.seeds):
        seen += played.judgement.seen
        if played.judgement.violations:
            failed.append(played)
    for played in failed:
        print(f"seed {played.seed}: {played.judgement.violations[0].what}; try: {played.command}")
    print(f"{asked.seeds} seeds, {len(failed)} with a broken promise, {time.monotonic() - began_at:.0f} s")
    for line in describe_seen(seen):
        print(line)
    return 1 if failed or list_missing(seen) else 0


def _show(seed: int, *, is_shared: bool) -> int:
    """Play one. Its history and its log go to a folder of its own: what lies in one folder is judged as one cluster."""
    folder = KEPT / f"seed-{seed}{'-shared' if is_shared else ''}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("w") as log:
        _log_to(log)
        played = play(seed, is_shared=is_shared)
    (folder / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in played.lines))
    for line in timeline.describe(played.lines):
        print(line)
    violations = played.judgement.violations
    for violation in violations:
        print(f"{violation.invariant}: {violation.what}")
    print(f"seed {seed}: {'a promise is broken' if violations else 'all promises kept'}; log and history: {folder}")
    print(f"try: .venv/bin/python -m tools.check_history {folder} (one seed alone is often too thin to prove anything)")
    return 1 if violations else 0


def _log_to(file: TextIO) -> None:
    structlog.configure(
        processors=[structlog.processors.add_log_level, _stamp, structlog.dev.ConsoleRenderer(colors=False)],
        logger_factory=structlog.WriteLoggerFactory(file),
    )


def _stamp(_logger: object, _method: str, event: EventDict) -> EventDict:  # fixed signature: structlog
    """By the clock of the simulation, not by that of the wall."""
    return {**event, "timestamp": f"{asyncio.get_running_loop().time():9.3f} s"}


if __name__ == "__main__":
    sys.exit(main())
