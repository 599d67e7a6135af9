"""The recipe of `rota.testing` works in a package that knows nothing of this repository's settings."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import rota.testing

ROOT = Path(__file__).resolve().parents[2]
BACKEND = """
from contextlib import asynccontextmanager

@asynccontextmanager
async def MyBackend():
    from tests.contract.store_backends import MemoryBackend  # late: it imports the suites, before pytest checks markers

    yield MemoryBackend()
"""
SETTINGS = ["-p", "no:cacheprovider", "--strict-markers", "-q", "-k", "TestTerms"]  # collects all


def test_a_backend_of_another_package_passes_the_contract_by_the_recipe(tmp_path: Path) -> None:
    conftest, module = find_blocks(rota.testing.__doc__ or "")
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "testing.py").write_text(BACKEND)
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_my_store.py").write_text(module)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    command = [sys.executable, "-m", "pytest", *SETTINGS]
    paths = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ran = subprocess.run(command, cwd=tmp_path, env=os.environ | paths, capture_output=True, text=True, timeout=25)  # noqa: S603 ours

    assert re.search(r"^\d+ passed, \d{3} deselected", ran.stdout, re.MULTILINE), ran.stdout + ran.stderr


def find_blocks(text: str) -> list[str]:
    """The indented blocks of a docstring: lines of four blanks or more, with what is empty between them."""
    found = re.findall(r"(?:^(?: {4}.*)?\n)+", text, re.MULTILINE)
    return [dedent(block).strip("\n") + "\n" for block in found if block.strip()]
