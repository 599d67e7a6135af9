"""`python -m tools.check_history FOLDER`: says of each promise whether it was kept, and ends with the verdict."""

import argparse
import sys
from pathlib import Path

from tools.check_history.judge import judge
from tools.check_history.reading import load
from tools.check_history.report import describe

EXIT_CODES = """\
It ends with
  0  every promise that the history has lines about was kept
  1  one was broken
  2  the history is too thin to prove anything (so does a wrong command line end)
  3  unknown: a line cannot be read, lacks a field, or is missing; FILE:LINE is told
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.check_history",
        description="Judge a recorded history of a Rota cluster.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="with the *.jsonl files that the processes wrote")
    parser.add_argument("--calm", action="store_true", help="a run without faults: none of their traces is expected")
    asked = parser.parse_args()
    judgement = judge(load(asked.folder))
    for line in describe(judgement, is_calm=asked.calm):
        print(line)
    if not judgement.seen["task"]:
        print(
            f"{asked.folder}: no task in it. Is this the folder of a run? Those of your own cluster are added by "
            "python -m tools.collect_history",
            file=sys.stderr,
        )
    return judgement.verdict(is_calm=asked.calm)


if __name__ == "__main__":
    sys.exit(main())
