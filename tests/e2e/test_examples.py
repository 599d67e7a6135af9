"""The examples run as a newcomer would run them."""

import subprocess
import sys
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
import yaml

from tests.support.cluster import a_cluster, bare_environment

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.timeout(180)
SETTINGS: dict[str, Any] = yaml.safe_load((EXAMPLES / "rota.yaml").read_text("utf-8"))


def run(name: str, folder: Path) -> list[str]:
    """What the example prints; it has nothing to say on standard error."""
    command = [sys.executable, str(EXAMPLES / name)]
    ran = subprocess.run(  # noqa: S603 ours
        command, cwd=folder, env=bare_environment(), capture_output=True, text=True, timeout=25, check=True
    )
    assert ran.stderr == ""
    return ran.stdout.splitlines()


def test_parts_of_ones_own_work_together(tmp_path: Path) -> None:
    assert run("extending.py", tmp_path) == ["SUCCESS HELLO", "FAILED nothing_to_say", "tasks ended: 2"]


def test_the_tutorial_ends_with_tasks_on_two_processes(tmp_path: Path) -> None:
    copy(EXAMPLES / "tasks.py", tmp_path)
    with a_cluster(tmp_path, SETTINGS, app=tmp_path / "tasks.py") as cluster:
        cluster.start("server", "one")
        assert run("submit.py", tmp_path) == ["SUCCESS Hello, Ada! Hello, Ada!"]
        cluster.start("worker", "two").wait_for("worker.online")
        spread = run("spread.py", tmp_path)
    assert [line.split()[0] for line in spread[:2]] == ["worker", "worker"]
    assert spread[2:] == ["20 ended as SUCCESS at attempt 1"]


def test_a_task_that_computes_runs_elsewhere_says_how_far_it_is_and_ends_at_its_timeout(tmp_path: Path) -> None:
    *picture, elsewhere, said, endless = run("cpu_bound/draw.py", tmp_path)
    assert len(picture) == 20
    assert "#" in picture[10]
    assert elsewhere == "in another process: True"
    assert said == "said on the way: row 20 of 20"
    assert endless == "what would never end: TIMEOUT"
