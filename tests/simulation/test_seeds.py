"""The short form of `make sim`: some seeds in safety mode and some in liveness mode, judged."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.simulation.play import Mode, mode_of, play
from tools.check_history.history import Line
from tools.check_history.judge import SOMETIMES

SEEDS, SEEDS_EACH = 200, 25
SHARED_SEEDS = 25
ALSO = ("attempt deferred", "callback accepted")
PLAY = "import json; from tests.simulation.play import play; print(json.dumps(play(7).lines))"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_EACH))
def test_no_seed_breaks_a_promise(first: int) -> None:
    seen = Counter[str]()
    for seed in range(first, first + SEEDS_EACH):
        judgement = play(seed).judgement
        assert not judgement.violations, f"make sim SEED={seed} shows it: {judgement.violations[0]}"
        seen += judgement.seen
    assert [what for what in (*SOMETIMES, *ALSO) if not seen[what]] == []  # or nothing was proven


@pytest.mark.timeout(300)
def test_no_seed_breaks_a_promise_where_all_pods_dispatch() -> None:
    seen, beside = Counter[str](), 0
    for seed in range(SHARED_SEEDS):
        played = play(seed, is_shared=True)
        violations = played.judgement.violations
        assert not violations, f"make sim SEED={seed} SHARED=1 shows it: {violations[0]}"
        seen += played.judgement.seen
        beside += count_grants_beside_the_leader(played.lines)
    assert [what for what in SOMETIMES if not seen[what]] == []
    assert beside > SHARED_SEEDS


def count_grants_beside_the_leader(lines: Sequence[Line]) -> int:
    leaders = {line["number"]: line["process"] for line in lines if line["op"] == "term"}
    grants = [line for line in lines if line["op"] == "step" and line["type"] == "ok" and "term" in line]
    # A term whose number never reached the one who asked for it is nobody's.
    return sum(grant["process"] != leaders.get(grant["term"]) for grant in grants)


def test_both_modes_are_played() -> None:
    assert {mode_of(seed) for seed in range(SEEDS_EACH)} == set(Mode)


@pytest.mark.timeout(120)
def test_a_seed_gives_the_same_run_again_in_every_process() -> None:
    def play_elsewhere(hash_seed: str) -> object:
        command = [sys.executable, "-c", PLAY]
        around = os.environ | {"PYTHONHASHSEED": hash_seed}
        out = subprocess.run(command, capture_output=True, check=True, env=around, timeout=100)  # noqa: S603 our own code
        return json.loads(out.stdout.splitlines()[-1])

    assert play_elsewhere("1") == play_elsewhere("2") == json.loads(json.dumps(play(7).lines))
