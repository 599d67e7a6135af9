"""Compare the cron evaluator with an oracle that looks at every minute: `python tools/check_cron.py --cases 1000000`.

Each case is a random expression, zone, daylight-saving policy and instant, most of them near a change of the clocks.
The seed is printed; the same seed makes the same cases. Exit code 1 when a case differs.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.cron_oracle import disagreements

MOST_SHOWN = 20
PROGRESS = 100_000
INSTANTS = 8


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Compare the cron evaluator with an oracle.")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    began = perf_counter()
    cases = different = 0
    for problem in islice(disagreements(Random(options.seed), instants=INSTANTS), options.cases):
        cases += 1
        if problem is not None:
            different += 1
            if different <= MOST_SHOWN:
                print(problem)
        if cases % PROGRESS == 0:
            print(f"{cases} cases, {different} differ, {perf_counter() - began:.0f} s", flush=True)
    print(f"seed {options.seed}: {cases} cases, {different} differ, {perf_counter() - began:.0f} s")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
