"""Each safeguard is missed by some seed when it is switched off; and the page of guarantees says so."""

import re
from itertools import count, islice
from pathlib import Path

import pytest

from tests.simulation.ablation import SAFEGUARDS, Safeguard
from tests.simulation.play import Mode, mode_of, play

MOST_SEEDS = 360  # where the first is no longer one that shows it; any change of the code gives all seeds other runs
ONLY_LIVENESS = frozenset({"L2", "L4", "L5"})
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "guarantees.md"
MARK = "<!-- tests/simulation/ablation.py -->"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("safeguard", SAFEGUARDS, ids=lambda safeguard: safeguard.name)
def test_a_cluster_without_it_breaks_a_promise(safeguard: Safeguard, monkeypatch: pytest.MonkeyPatch) -> None:
    safeguard.switch_off(monkeypatch)
    may_show_it = {Mode.LIVENESS} if safeguard.caught_by <= ONLY_LIVENESS else set(Mode)
    seeds = (seed for seed in count() if mode_of(seed) in may_show_it)
    for seed in (safeguard.first, *islice(seeds, MOST_SEEDS)):
        broken = {violation.invariant for violation in play(seed).judgement.violations}
        if broken & safeguard.caught_by:
            return
    pytest.fail(f"{MOST_SEEDS} seeds did without it: it is untested, or unneeded")


def test_the_page_of_guarantees_names_the_same_safeguards_and_promises() -> None:
    table = PAGE.read_text("utf-8").split(MARK)[1].split("\n\n")[1]
    rows = re.findall(r"^\| (.+) \| (.+) \|$", table, re.MULTILINE)[1:]
    told = {safeguard: set(promises.split(", ")) for safeguard, promises in rows}
    assert told == {safeguard.name: safeguard.caught_by for safeguard in SAFEGUARDS}
