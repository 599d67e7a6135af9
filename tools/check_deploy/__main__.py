"""`python -m tools.check_deploy`: 0 when deploy/ is sound, 1 with all that is wrong; `--write` renders manifests."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.check_deploy.chart import check_chart, write_manifests
from tools.check_deploy.compose import check_compose
from tools.check_deploy.outside import Outside
from tools.check_deploy.product import check_words
from tools.check_deploy.units import check_units

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".venv" / "deploy-tools"
TEXTS = ("deploy/**/*", "docs/guides/deploy-*.md")


def main() -> int:
    parser = argparse.ArgumentParser(prog="check_deploy", description="Check the files in deploy/.")
    parser.add_argument("--write", action="store_true", help="render deploy/kubernetes from the chart")
    outside = Outside(TOOLS)
    if parser.parse_args().write:
        if outside.has("helm"):
            write_manifests(ROOT / "deploy", outside)
        else:
            print("helm is not here: deploy/kubernetes stays as it is")
        return 0
    problems = list(check(ROOT, outside))
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"deploy: {len(problems)} problems" if problems else "deploy is sound")
    return 1 if problems else 0


def check(root: Path, outside: Outside) -> Iterator[str]:
    """All that is wrong with the files in deploy/, and with what their guides name."""
    yield from outside.list_missing()
    folder = root / "deploy"
    yield from check_compose(folder)
    yield from outside.check_compose(folder / "compose.yaml")
    yield from outside.check_dockerfile(folder / "Dockerfile")
    yield from check_chart(folder, outside)
    yield from check_units(folder / "systemd")
    for pattern in TEXTS:
        for path in sorted(path for path in root.glob(pattern) if path.is_file()):
            yield from check_words(path.read_text("utf-8"), str(path.relative_to(root)))


if __name__ == "__main__":
    sys.exit(main())
