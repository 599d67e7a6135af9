"""The examples run as a newcomer would run them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_first_look_ends_in_success_and_refuses_the_late_result(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "first_look.py")]
    for _ in range(2):  # the second time on the data of the first
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=20, check=True)  # noqa: S603 ours
        shown = ran.stdout
        assert "late result  of attempt 1: refused as stale" in shown
        assert 'is SUCCESS, result {"sent":true}' in shown
