"""The short form of `make sim`: some seeds in safety mode and some in liveness mode, judged."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.play import Mode, mode_of, play
from tools.check_history.judge import SOMETIMES

SEEDS, SEEDS_EACH = 200, 25
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
