"""A relative link in a document leads to a file that is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "node_modules" for part in path.relative_to(ROOT).parts)
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
ELSEWHERE = ("http://", "https://", "mailto:", "#")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    targets = [target for target in LINK.findall(document.read_text("utf-8")) if not target.startswith(ELSEWHERE)]

    assert [target for target in targets if not (document.parent / target.partition("#")[0]).exists()] == []


def test_both_readmes_are_among_the_documents() -> None:
    assert {ROOT / "README.md", ROOT / "README.zh-CN.md"} <= set(DOCUMENTS)
