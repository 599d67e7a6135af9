"""Every requirement of the engine has its tests, and every test that a document names is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "reference" / "requirements.md"
REQUIRED = [
    *(f"C{number}" for number in range(1, 9)),
    *(f"T{number}" for number in range(1, 8)),
    *(f"F{number}" for number in range(1, 9)),
    *("L1", "L5", "L6", "L7", "L8", "L10"),
    *("X1", "X2", "X3"),
    "S1",
    *(f"D{number}" for number in range(1, 5)),
]
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`([\w/.]+\.py)::(test_\w+)`")
NAME = re.compile(r"`(test_\w+)`")
PROSE = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path != TABLE]


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def find_tests(path: Path) -> dict[str, bool]:
    """The names of the test functions of a file, in classes too, and whether `make test` runs them."""
    tree = ast.parse(path.read_text("utf-8"))
    is_file_slow = any("pytestmark" in (text := ast.unparse(node)) and ".slow" in text for node in tree.body)
    found = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS) and node.name.startswith("test_")]
    return {
        node.name: not is_file_slow and "pytest.mark.slow" not in map(ast.unparse, node.decorator_list)
        for node in found
    }


@cache
def all_tests() -> frozenset[str]:
    files = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "src" / "rota" / "testing" / "contract").glob("*.py")]
    return frozenset().union(*map(find_tests, files))


def test_every_requirement_has_its_row() -> None:
    assert [row[0] for row in ROW.findall(TABLE.read_text("utf-8"))] == REQUIRED


@pytest.mark.parametrize("row", ROW.findall(TABLE.read_text("utf-8")), ids=lambda row: row[0])
def test_the_tests_of_a_requirement_exist(row: tuple[str, str, str]) -> None:
    named = TEST.findall(row[2])
    assert named, "no test is named"
    assert len(named) == row[2].count("::"), "one of them is not written `path.py::test_name`"
    missing = [f"{path}::{name}" for path, name in named if not _is_there(ROOT / path, name)]
    assert missing == []
    assert any(find_tests(ROOT / path)[name] for path, name in named), "no change is held to it"


@pytest.mark.parametrize("document", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_test_that_a_document_names_exists(document: Path) -> None:
    assert [name for name in NAME.findall(document.read_text("utf-8")) if name not in all_tests()] == []


def _is_there(path: Path, name: str) -> bool:
    return path.is_file() and name in find_tests(path)
