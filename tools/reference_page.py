"""What the tools that write reference pages share: write the page, or say that it is stale."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "reference"


def publish(name: str, text: str, *, arguments: Sequence[str]) -> int:
    """Write the page; with `--check` write nothing, and a stale page is exit code 1."""
    parser = argparse.ArgumentParser(description=f"Write docs/reference/{name} from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is stale")
    is_check = parser.parse_args(arguments).check
    page = FOLDER / name
    if page.exists() and page.read_text("utf-8") == text:
        print(f"{name} is current")
        return 0
    if is_check:
        print(f"{name} does not match the code; try: make docs", file=sys.stderr)
        return 1
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, "utf-8")
    print(f"{name} written")
    return 0
