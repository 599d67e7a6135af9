"""Programs and schemas that are not ours, from the wheels in requirements/deploy.txt.

They are in a folder of their own: nothing else needs these hundred megabytes. One that is missing is skipped aloud on
a laptop (there is no wheel of helm for every platform), and is an error where `CI=true`.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

WITHIN_S = 120
KUBERNETES = ("1.27", "1.37")  # the oldest that the chart asks for, and the newest whose schemas are there
PROGRAMS = ("helm", "hadolint")
MODULES = ("kubernetes_validate", "check_jsonschema")


@dataclass(frozen=True, slots=True)
class Outside:
    """The folder with them."""

    folder: Path

    def has(self, name: str) -> bool:
        return (self.folder / "bin" / name).exists() or (self.folder / name).exists()

    def list_missing(self) -> Iterator[str]:
        for name in (*PROGRAMS, *MODULES):
            if self.has(name):
                continue
            if os.environ.get("CI") == "true":
                yield f"{name} is not in {self.folder}: make deploy-tools brings it"
            else:
                print(f"{name} is not here: what it would check is not checked")

    def check_dockerfile(self, path: Path) -> Iterator[str]:
        if self.has("hadolint"):
            yield from self.run("hadolint", "--no-color", str(path))

    def check_compose(self, path: Path) -> Iterator[str]:
        if self.has("check_jsonschema"):
            yield from self._run_module("check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path))

    def validate(self, texts: Mapping[str, str]) -> Iterator[str]:
        """Whether Kubernetes would take these objects; each text has its name."""
        if not self.has("kubernetes_validate"):
            return
        with tempfile.TemporaryDirectory() as folder:
            for name, text in texts.items():
                (Path(folder) / f"{name.replace('/', '-')}.yaml").write_text(text, "utf-8")
            versions = [word for version in KUBERNETES for word in ("--kubernetes-version", version)]
            files = map(str, sorted(Path(folder).iterdir()))
            yield from self._run_module("kubernetes_validate", *versions, "--strict", "--quiet", *files)

    def run(self, program: str, *words: str) -> Iterator[str]:
        """What it complains of."""
        yield from self.ask(program, *words)[1]

    def ask(self, program: str, *words: str) -> tuple[str, list[str]]:
        """What it answers, and what it complains of."""
        return _run([str(self.folder / "bin" / program), *words], {**os.environ, "HELM_CACHE_HOME": "/nonexistent"})

    def _run_module(self, module: str, *words: str) -> list[str]:
        variables = {**os.environ, "PYTHONPATH": str(self.folder)}
        return _run([sys.executable, "-m", module, *words], variables)[1]


def _run(command: list[str], variables: dict[str, str]) -> tuple[str, list[str]]:
    done = subprocess.run(  # noqa: S603 a list of arguments, no shell
        command, check=False, capture_output=True, text=True, env=variables, timeout=WITHIN_S
    )
    if done.returncode == 0:
        return done.stdout, []
    return "", [f"{Path(command[0]).name}: {(done.stdout + done.stderr).strip()[-2000:]}"]
