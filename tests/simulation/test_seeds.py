"""The short form of `make sim`: some seeds in safety mode and some in liveness mode, judged."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.simulation.play import Mode, mode_of, play
from tests.simulation.timeline import describe
from tests.support.cluster import REPOSITORY
from tools.check_history.history import Line
from tools.check_history.judge import SOMETIMES
from tools.check_history.reading import load

SEEDS, SEEDS_EACH = 200, 25
SHARED_SEEDS = 25
ALSO = ("attempt deferred", "callback accepted")
STAMPED = re.compile(r"^ *(\d+\.\d{3}) s +(.+)$", re.MULTILINE)
PLAY = "import json; from tests.simulation.play import play; print(json.dumps(play(7).lines))"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_EACH))
def test_no_seed_breaks_a_promise(first: int) -> None:
    seen = Counter[str]()
    for seed in range(first, first + SEEDS_EACH):
        played = play(seed)
        violations = played.judgement.violations
        assert not violations, f"{played.command} shows it: {violations[0]}"
        seen += played.judgement.seen
    assert [what for what in (*SOMETIMES, *ALSO) if not seen[what]] == []  # or nothing was proven


@pytest.mark.timeout(300)
def test_no_seed_breaks_a_promise_where_all_pods_dispatch() -> None:
    seen, beside = Counter[str](), 0
    for seed in range(SHARED_SEEDS):
        played = play(seed, is_shared=True)
        violations = played.judgement.violations
        assert not violations, f"{played.command} shows it: {violations[0]}"
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


@pytest.mark.timeout(120)
def test_a_seed_that_is_shown_tells_its_timeline_and_leaves_its_log_by_virtual_seconds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seed", "7", "--shared"]
    around = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=around, cwd=tmp_path, timeout=100)  # noqa: S603 our own code
    folder = tmp_path / ".sim" / "seed-7-shared"
    told = [(float(at), what) for at, what in STAMPED.findall(shown.stdout)]
    assert told == sorted(told, key=lambda one: one[0])
    for what in ("fault: ", "over: ", " is elected, term 1", " joins as worker ", "the last task has ended"):
        assert any(what in text for _, text in told), what
    log = (folder / "log.txt").read_text("utf-8").splitlines()
    assert log and all(STAMPED.match(line) or line.startswith(" ") for line in log)
    assert load(folder).flaws == []


def test_what_was_told_of_a_crash_and_of_those_given_up_is_in_the_timeline() -> None:
    lost = {"op": "entry", "written_at": 9.0, "worker": "8", "message": "worker_lost"}
    lines = [
        {"op": "fault", "type": "begin", "name": "kill 1", "mono": 1.0},
        {"op": "harm", "pod": "pod0", "mono": 1.0},
        {"op": "harm", "pod": "pod0", "mono": 1.0},
        lost,
        lost,
        {"op": "harm", "pod": "pod0", "mono": 30.0},  # at the end all are stopped
    ]
    assert [line.split(" s  ")[1] for line in describe(lines)] == [
        "fault: kill 1",
        "pod0 is hit",
        "worker 8 is given up, attempts taken back: 2",
        "the last task has ended",
    ]


@pytest.mark.parametrize(("is_shared", "command"), [(False, "make sim SEED=0"), (True, "make sim SEED=0 SHARED=1")])
def test_the_command_that_is_told_plays_the_same_run_again(is_shared: bool, command: str) -> None:
    assert play(0, is_shared=is_shared).command == command
