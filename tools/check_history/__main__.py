"""`python -m tools.check_history FOLDER`: 0 when every promise was kept, 1 when one was broken, 2 when the history is
too thin to prove anything."""

import argparse
import json
import sys
from pathlib import Path

from tools.check_history.history import load
from tools.check_history.judge import PROMISES, Judgement, judge
from tools.check_history.verdict import Violation


def main() -> int:
    parser = argparse.ArgumentParser(prog="check_history", description="Judge a recorded history of a Rota cluster.")
    parser.add_argument("folder", type=Path, help="with the *.jsonl files that the processes wrote")
    parser.add_argument("--calm", action="store_true", help="a run without faults: none of their traces is expected")
    asked = parser.parse_args()
    history = load(asked.folder)
    if not history.tasks:
        print(f"{asked.folder}: no task in it; is this the folder of a run?", file=sys.stderr)
        return 2
    judgement = judge(history)
    _tell(judgement)
    if judgement.violations:
        return 1
    return 2 if judgement.missing and not asked.calm else 0


def _tell(judgement: Judgement) -> None:
    broken = {violation.invariant for violation in judgement.violations}
    for promise in PROMISES:
        print(f"{promise.name:>4}  {'BROKEN' if promise.name in broken else 'kept':<6}  {promise.text}")
    for violation in judgement.violations:
        _show(violation)
    print("seen: " + ", ".join(f"{count} x {what}" for what, count in judgement.seen.items()))
    if judgement.missing:
        print("never happened, so nothing is proven about it: " + ", ".join(judgement.missing))


def _show(violation: Violation) -> None:
    print(f"\n{violation.invariant}: {violation.what}")
    for line in violation.witness:
        print(f"    {json.dumps(line)}")


if __name__ == "__main__":
    sys.exit(main())
