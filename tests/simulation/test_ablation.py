"""Each safeguard is missed by some seed when it is switched off."""

import pytest

from tests.simulation.ablation import SAFEGUARDS, Safeguard
from tests.simulation.play import play

MOST_SEEDS = 60


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("safeguard", SAFEGUARDS, ids=lambda safeguard: safeguard.name)
def test_a_cluster_without_it_breaks_a_promise(safeguard: Safeguard, monkeypatch: pytest.MonkeyPatch) -> None:
    safeguard.switch_off(monkeypatch)
    for seed in (safeguard.first, *range(MOST_SEEDS)):
        broken = {violation.invariant for violation in play(seed).judgement.violations}
        if broken & safeguard.caught_by:
            return
    pytest.fail(f"{MOST_SEEDS} seeds did without it: it is untested, or unneeded")
