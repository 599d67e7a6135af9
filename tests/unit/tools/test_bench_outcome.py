"""What a run of the benchmarks writes down."""

import json
import os
import platform
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from subprocess import TimeoutExpired

import pytest
from asyncpg.exceptions import PostgresError

import bench
import rota
from bench import gathering, suite
from bench.gathering import gather
from bench.grounds import GROUNDS
from bench.outcome import INSTALLATIONS, KINDS, Figure, Outcome, draw
from bench.resources import doubt
from bench.suite import last_words
from bench.surroundings import processor, surroundings
from bench.usage import Machine, MachineWatch, OthersWatch, cpu_seconds, memory_bytes, precise_cpu_seconds

FIGURES = (
    Figure("End to end", "redis+mariadb, both", 7015.4, "tasks/s", 0.29, "the floor", "CPU 270 µs"),
    Figure("End to end", "floor of redis+mariadb, both", 23801, "tasks/s"),
    Figure("Peers", "huey, both", 4692, "tasks/s", 0.67, "Rota", others=0.4),
    Figure("Waits", "idle: create to start, p50", 4.25, "ms"),
)


@pytest.fixture
def outcome() -> Outcome:
    return Outcome("2026-11-16T01:02:03Z", is_quick=False, figures=list(FIGURES))


def test_a_run_is_written_in_three_forms_under_its_time_and_as_the_latest(outcome: Outcome, tmp_path: Path) -> None:
    outcome.write(tmp_path / "results")
    names = {path.name for path in (tmp_path / "results").iterdir()}
    stems = ("latest", "20261116T010203Z")
    assert names == {f"{stem}.{form}" for stem in stems for form in ("md", "json", "svg")}
    found = json.loads((tmp_path / "results" / "latest.json").read_text())
    assert [figure["value"] for figure in found["figures"]] == [figure.value for figure in FIGURES]


@pytest.mark.parametrize(
    ("is_quick", "is_whole", "stem"), [(True, True, "quick"), (True, False, "quick"), (False, False, "part")]
)
def test_a_run_of_less_leaves_the_latest_whole_one_alone(
    tmp_path: Path, *, is_quick: bool, is_whole: bool, stem: str
) -> None:
    Outcome("2026-11-16T01:02:03Z", is_quick, is_whole, list(FIGURES)).write(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == {stem, "20261116T010203Z"}


def one_figure() -> Iterator[Figure]:
    yield Figure("Growth", "200 workers", 24_866, "grants/s")


def interrupted() -> Iterator[Figure]:
    yield Figure("Growth", "1,000 types", 25_701, "grants/s")
    raise KeyboardInterrupt


def failing() -> Iterator[Figure]:
    yield Figure("Creating tasks", "HTTP", 100, "tasks/s")
    raise ValueError("no number")


def test_a_run_that_is_interrupted_leaves_what_it_has_and_replaces_no_other(tmp_path: Path) -> None:
    outcome = Outcome("2026-11-16T01:02:03Z", is_quick=False)
    parts = {"growth": one_figure, "types": interrupted, "peers": one_figure}
    with pytest.raises(KeyboardInterrupt):
        gather(parts, outcome, folder=tmp_path, say=lambda _: None)
    assert {path.name for path in tmp_path.iterdir()} == {f"unfinished.{form}" for form in ("md", "json", "svg")}
    written = (tmp_path / "unfinished.md").read_text()
    assert "2026-11-16T01:02:03Z, unfinished\n" in written
    assert "**unfinished: types, peers did not end well, or were not begun**" in written
    assert "200 workers" in written and "1,000 types" in written
    assert next(outcome.to_text()).startswith("unfinished: types, peers")


def test_a_run_of_which_a_part_failed_replaces_no_other_and_one_that_ended_well_does(tmp_path: Path) -> None:
    outcome = Outcome("2026-11-16T01:02:03Z", is_quick=False)
    gather({"creates": failing, "growth": one_figure}, outcome, folder=tmp_path, say=lambda _: None)
    assert {path.stem for path in tmp_path.iterdir()} == {"unfinished"}
    assert Outcome.read(tmp_path / "unfinished.json").left == outcome.left == ["creates"]
    gather({"growth": one_figure}, outcome, folder=tmp_path, say=lambda _: None)
    assert {path.stem for path in tmp_path.iterdir()} == {"latest", "20261116T010203Z"}


def test_a_run_without_one_of_the_other_queues_replaces_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.peers.run.measure_all", lambda *_args, **_sizes: {"arq": "no network"})
    outcome = Outcome("2026-11-16T01:02:03Z", is_quick=False)
    measure = partial(suite.measure_peers, suite.Size(is_quick=False))
    gather({"peers": measure}, outcome, folder=tmp_path, say=lambda _: None)
    assert outcome.left == ["peers"]
    assert [figure.note for figure in outcome.figures] == [
        "could not be measured: no network",
        "RuntimeError: not all could be measured: arq",
    ]


def test_only_a_whole_run_says_what_is_made_from_it(outcome: Outcome) -> None:
    assert any("make docs" in line for line in last_words(outcome))
    outcome.is_whole = False
    assert not any("make docs" in line for line in last_words(outcome))
    outcome.left = ["peers"]
    assert "failed: peers; no other run was replaced" in last_words(outcome)


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit])
def test_a_run_that_is_ended_early_says_in_a_line_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ends: type[BaseException]
) -> None:
    def end(_size: object) -> Iterator[Figure]:
        raise ends

    monkeypatch.setattr(suite, "RESULTS", tmp_path)
    monkeypatch.setitem(suite.PARTS, "growth", end)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert suite.main(["--only", "growth"]) == 130
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert f"{tmp_path}/unfinished.md, no other run was replaced" in capsys.readouterr().out


def test_every_figure_of_a_disturbed_part_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure() -> Iterator[Figure]:
        yield Figure("Growth", "200 workers", 24_866, "grants/s")
        yield Figure("Growth", "1,000 types", 25_701, "grants/s", others=0.9)

    monkeypatch.setattr(MachineWatch, "read", lambda _watch, _own: Machine(others=0.5, idle=0.0))
    outcome = Outcome("2026-11-16T01:02:03Z", is_quick=True)
    gather({"growth": measure}, outcome, folder=tmp_path, say=lambda _: None)
    assert [figure.remark for figure in outcome.figures] == [f"others used {n}% of the machine" for n in (50, 90)]


@pytest.mark.parametrize(
    "failure",
    [AssertionError("it is late"), TimeoutExpired("produce", 90), ValueError("no number"), PostgresError("no")],
)
def test_what_a_part_found_before_it_failed_is_kept_and_the_next_part_begins(
    tmp_path: Path, failure: Exception
) -> None:
    def fail() -> Iterator[Figure]:
        yield Figure("Creating tasks", "HTTP", 100, "tasks/s")
        raise failure

    def go_on() -> Iterator[Figure]:
        yield Figure("Growth", "200 workers", 24_866, "grants/s")

    outcome = Outcome("2026-11-16T01:02:03Z", is_quick=True)
    gather({"creates": fail, "growth": go_on}, outcome, folder=tmp_path, say=lambda _: None)
    assert [figure.name for figure in outcome.figures] == ["HTTP", "failed", "200 workers"]
    assert type(failure).__name__ in outcome.figures[1].note


def test_what_others_used_is_told_of_each_figure_and_not_of_the_whole_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure() -> Iterator[Figure]:
        for name in ("3 workers", "200 workers"):
            yield Figure("Growth", name, 24_866, "grants/s")

    shares = iter((0.5, 0.0))
    monkeypatch.setattr(MachineWatch, "read", lambda _watch, _own: Machine(others=next(shares), idle=0.0))
    monkeypatch.setattr(gathering, "TOGETHER_S", 0.0)
    outcome = Outcome("2026-11-16T01:02:03Z", is_quick=True)
    gather({"growth": measure}, outcome, folder=tmp_path, say=lambda _: None)
    assert [figure.others for figure in outcome.figures] == [0.5, 0.0]


def test_a_disturbed_run_says_so_above_all_figures_and_in_the_picture(outcome: Outcome) -> None:
    told = "disturbed: others used up to 40% of the machine"
    assert next(outcome.to_text()).startswith(told)
    assert list(outcome.to_markdown("latest.svg"))[2].startswith(f"**{told}")
    assert f">{told}</text>" in draw(FIGURES)
    assert "disturbed" not in draw(FIGURES[:2])
    quiet = Outcome("2026-11-16T01:02:03Z", is_quick=False, figures=list(FIGURES[:2]))
    assert not any("disturbed" in line for line in (*quiet.to_text(), *quiet.to_markdown("latest.svg")))


def test_a_median_stands_beside_the_lowest_and_the_highest_round() -> None:
    assert Figure("Peers", "arq, both", 12, "tasks/s", rounds=(11_000, 12_000, 14_500)).remark == (
        "rounds: 11,000 to 14,500"
    )
    assert Figure("Peers", "arq, both", 12, "tasks/s", rounds=(11_000,)).remark == ""


def test_a_run_tells_what_it_was_made_of_and_how_long_it_took(tmp_path: Path) -> None:
    outcome = Outcome("2026-11-16T01:02:03Z", is_quick=True, surroundings={"Redis": "7.0.15"})
    gather({"growth": one_figure}, outcome, folder=tmp_path, say=lambda _: None)
    written = (tmp_path / "quick.md").read_text()
    assert "| Redis | 7.0.15 |\n| took | 0 min |" in written
    assert Outcome.read(tmp_path / "quick.json").surroundings == {"Redis": "7.0.15", "took": "0 min"}
    assert "Redis: 7.0.15" in list(outcome.to_text())


def test_what_a_machine_does_not_tell_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = surroundings(["python", "bench/suite.py", "--only", "machine"])
    assert told["Rota"].startswith(rota.__version__)
    assert told["command"] == "python bench/suite.py --only machine"
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert surroundings(["python"])["Rota"] == rota.__version__
    assert processor(tmp_path / "cpuinfo") == platform.processor()
    (tmp_path / "cpuinfo").write_text("flags : a\nmodel name\t: Some Processor @ 2 GHz\n")
    assert processor(tmp_path / "cpuinfo") == "Some Processor @ 2 GHz"


def test_the_columns_of_the_table_are_as_wide_as_what_is_in_them(outcome: Outcome) -> None:
    outcome.add(Figure("Waits", "a name that is longer than all of the others: create to result, p99", 145.0, "ms"))
    rows = [line for line in outcome.to_text() if line.startswith("  ")]
    assert (
        len({line.index(figure.shown) + len(figure.shown) for line, figure in zip(rows, outcome.figures, strict=True)})
        == 1
    )
    assert list(Outcome("2026-11-16T01:02:03Z", is_quick=False).to_text()) == []


def test_a_run_that_is_rendered_anew_tells_the_size_of_its_own_rounds(outcome: Outcome, tmp_path: Path) -> None:
    outcome.end_to_end_tasks = 20_000
    outcome.write(tmp_path)
    read = Outcome.read(tmp_path / "latest.json")
    assert any("each round is 20,000 tasks" in line for line in read.to_markdown("latest.svg"))


def test_each_figure_stands_with_its_share_and_with_what_disturbed_it(outcome: Outcome) -> None:
    lines = list(outcome.to_markdown("latest.svg"))
    assert "| redis+mariadb, both | 7,015 tasks/s | 29% of the floor | CPU 270 µs |" in lines
    on = "Redis; no record of ended tasks"
    assert f"| huey, both | {on} | 4,692 tasks/s | 67% of Rota | others used 40% of the machine |" in lines
    assert "| idle: create to start, p50 | 4.25 ms |  |  |" in lines
    assert any("huey, both" in line and on in line for line in outcome.to_text())


def test_the_picture_has_a_bar_for_each_in_colours_for_light_and_dark() -> None:
    picture = draw(FIGURES[:3])
    assert [bar.attrib["class"] for bar in rects(picture)[-3:]] == ["floor", "rota", "bare"], "the longest first"
    assert "prefers-color-scheme:dark" in picture
    assert ElementTree.fromstring(draw([])) is not None  # noqa: S314 our own


def rects(picture: str) -> list[ElementTree.Element]:
    return [element for element in ElementTree.fromstring(picture).iter() if element.tag.endswith("rect")]  # noqa: S314 our own


def test_the_picture_says_what_each_colour_is_and_on_which_databases_each_bar_stands() -> None:
    pgqueuer = Figure("Peers", "pgqueuer, both", 5000, "tasks/s")
    picture = draw([*FIGURES[:3], pgqueuer])
    for told, *_ in KINDS.values():
        assert f">{told}</text>" in picture
    labels = ["Rota on Redis + MariaDB", "floor on Redis + MariaDB", "huey on Redis"]
    for label in [*labels, "pgqueuer on PostgreSQL, batches of 500"]:
        assert f">{label}</text>" in picture
    assert {bar.attrib["class"] for bar in rects(picture)[-4:]} == set(KINDS), "one that keeps a record looks different"


def test_every_ground_has_a_name_for_people() -> None:
    assert set(INSTALLATIONS) == set(GROUNDS)


def test_what_was_written_can_be_drawn_again_with_the_machine_it_was_measured_on(
    outcome: Outcome, tmp_path: Path
) -> None:
    outcome.machine = "64 cores of somebody else"
    outcome.write(tmp_path)
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    Outcome.read(tmp_path / "latest.json").write(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
    assert "64 cores of somebody else" in before["latest.md"]


def test_the_committed_table_and_picture_are_those_of_the_committed_figures(tmp_path: Path) -> None:
    kept = Path(bench.__file__).with_name("results")
    Outcome.read(kept / "latest.json").write(tmp_path)
    for name in ("latest.md", "latest.svg", "latest.json"):
        assert (tmp_path / name).read_text() == (kept / name).read_text(), "python bench/suite.py --render"


@pytest.mark.parametrize(("share", "is_told"), [(0.03, False), (0.4, True)])
def test_whoever_judges_is_told_what_others_used_meanwhile(
    monkeypatch: pytest.MonkeyPatch, *, share: float, is_told: bool
) -> None:
    monkeypatch.setattr(MachineWatch, "read", lambda _watch, _own: Machine(others=share, idle=0.0))
    told = OthersWatch().spell()
    assert told.startswith(f"others used {share:.0%} of the machine meanwhile")
    assert ("says little" in told) == is_told


def test_bytes_of_a_few_waiting_tasks_are_told_with_a_doubt() -> None:
    assert "of 10,000 tasks alone" in doubt(10_000)
    assert doubt(50_000) == ""


def test_other_processes_of_the_benchmark_are_interrupted_without_a_word() -> None:
    code = "from bench.forks import end_in_silence as end, signal; end(); signal.raise_signal(signal.SIGINT)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)  # noqa: S603 our own
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")


def test_what_this_process_uses_is_its_own() -> None:
    watch, before = MachineWatch(), cpu_seconds(os.getpid())
    sum(number * number for number in range(2_000_000))
    used = cpu_seconds(os.getpid()) - before
    assert used > 0
    assert 0 <= watch.read(used).others <= 1.5, "shares of the machine; its clock ticks in hundredths"
    assert memory_bytes(os.getpid()) > 2**20
    assert precise_cpu_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=1.0)
    assert cpu_seconds(2**31 - 1) == memory_bytes(2**31 - 1) == 0, "there is no such process"
