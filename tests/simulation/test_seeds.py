"""The short form of `make sim`: some seeds, judged."""

from collections import Counter

import pytest

from tests.simulation.play import play
from tools.check_history.judge import SOMETIMES

SEEDS_EACH = 25
ALSO = ("attempt deferred", "callback accepted", "callback refused")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(0, 25, SEEDS_EACH))
def test_no_seed_breaks_a_promise(first: int) -> None:
    seen = Counter[str]()
    for seed in range(first, first + SEEDS_EACH):
        judgement = play(seed).judgement
        assert not judgement.violations, f"make sim SEED={seed} shows it: {judgement.violations[0]}"
        seen += judgement.seen
    assert [what for what in (*SOMETIMES, *ALSO) if not seen[what]] == []  # or nothing was proven


def test_a_seed_gives_the_same_run_again() -> None:
    assert play(7).lines == play(7).lines
