"""Code in the documents is code that is run: every block says which file it is from, and stands there word for word.

A block in a document begins with a comment that readers do not see, such as `<!-- examples/tasks.py -->`. The files are
run by the tests beside this one, and by `tests/e2e/test_examples.py`.
"""

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"(?:<!-- (?P<file>\S+) -->\n)?```python\n(?P<code>.*?)```", re.DOTALL)
SETTINGS_BLOCK = re.compile(r"<!-- (?P<file>\S+) -->\n```toml\n(?P<code>.*?)```", re.DOTALL)
GUIDES = sorted((ROOT / "docs").glob("[tg]*/*.md"))
REFERENCES = [ROOT / "docs" / "reference" / name for name in ("python.md", "events.md")]
DOCUMENTS = [ROOT / "README.md", ROOT / "README.zh-CN.md", *REFERENCES, *GUIDES]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_of_python_is_part_of_a_file_that_is_run(document: Path) -> None:
    for block in BLOCK.finditer(document.read_text("utf-8")):
        assert block["file"], f"{document.name} has a block without its file:\n{block['code']}"
        code = (ROOT / block["file"]).read_text("utf-8")
        wanted = block["code"].strip()
        indented = textwrap.indent(wanted, "    ", lambda line: bool(line.strip()))
        assert wanted in code or indented in code, f"{document.name} shows what is not in {block['file']}:\n{wanted}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_block_of_toml_that_names_a_file_is_part_of_it(document: Path) -> None:
    for block in SETTINGS_BLOCK.finditer(document.read_text("utf-8")):
        assert block["code"].strip() in (ROOT / block["file"]).read_text("utf-8")


def test_the_tutorial_and_the_guides_are_among_the_documents() -> None:
    assert {"first-task.md", "writing-tasks.md", "extending.md"} <= {path.name for path in DOCUMENTS}
