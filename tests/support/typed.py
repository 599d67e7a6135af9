"""What a document says to type is typed, in its order, and says what the document says it says.

A block of `console` has commands (`$ …`) and what they print, where `…` stands for anything and long numbers for any. A
comment before it that readers do not see says more: `terminal: NAME` is a program that goes on running, `ends: NAME`
ends it before, `not run: WHY` speaks for itself. A block of `yaml` is the file `rota.yaml`, or `file: NAME`; one of
`toml` is a file if it says which.
"""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy

from tests.support.cluster import bare_environment, wait_until
from tests.support.servers.process import free_port

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(?:<!-- (?P<note>[^>]+) -->\n)?```(?P<kind>console|yaml|toml)\n(?P<text>.*?)```", re.DOTALL)
USUAL_FILES = {"yaml": "rota.yaml"}


@dataclass
class Shell:
    """A folder, its environment, and the programs that run in it."""

    folder: Path
    variables: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self, commands: str) -> str:
        """What the commands print; their variables stay for the next ones."""
        script = f"{commands}\nlocal_code=$?; declare -p ID > .shell 2>/dev/null; exit $local_code"
        if (self.folder / ".shell").exists():
            script = f"source .shell\n{script}"
        ran = subprocess.run(
            ["/bin/bash"],  # it reads what is typed, and is not called by it: `pgrep -f` must not find this shell
            input=script,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert ran.returncode == 0, f"{commands}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout + ran.stderr

    def start(self, name: str, command: str, *, until: str) -> None:
        """Start a program and wait until it has said this."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            self.running[name] = subprocess.Popen(  # noqa: S603 what the tutorial says
                ["/bin/bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.variables,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(lambda: is_said(until, log.read_text("utf-8")), f"{command} to say:\n{until}")

    def end(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGINT)
        process.wait(60)

    def end_all(self) -> None:
        for name in list(self.running):
            self.end(name)


@contextmanager
def a_shell(folder: Path, *examples: str) -> Iterator[Shell]:
    """In a folder with these examples, with ports of its own."""
    for name in examples:
        copy(ROOT / "examples" / name, folder)
    variables = bare_environment()
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    port = free_port()
    variables |= {
        "ROTA_API__PORT": str(port),
        "ROTA_API__GRPC_PORT": "0",
        "ROTA_URL": f"http://127.0.0.1:{port}",
        "COLUMNS": "200",
    }
    made = Shell(folder, variables)
    with ExitStack() as stack:
        stack.callback(made.end_all)
        yield made


def is_said(wanted: str, said: str) -> bool:
    """Whether the lines are there, in order; other lines may stand between them."""
    lines = iter(said.splitlines())
    return all(
        any(pattern.fullmatch(line.rstrip()) for line in lines) for pattern in map(to_pattern, wanted.splitlines())
    )


def to_pattern(line: str) -> re.Pattern[str]:
    pattern = re.escape(line.rstrip()).replace("…", ".*")
    pattern = re.sub(r"\d{12,}", r"\\d+", pattern)
    return re.compile(re.sub(r"127\\\.0\\\.0\\\.1:\d+", r"127\\.0\\.0\\.1:\\d+", pattern))


def split(block: str) -> list[tuple[str, str]]:
    """Each command with what it prints."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def type_block(shell: Shell, text: str, *, note: str) -> None:
    if note.startswith("ends: "):
        shell.end(note.removeprefix("ends: "))
    for command, output in split(text):
        if note.startswith("terminal: "):
            shell.start(note.removeprefix("terminal: "), command, until=output)
            continue
        said = shell.run(command)
        assert is_said(output, said), f"$ {command}\nprints\n{said}\nand not\n{output}"


def type_document(shell: Shell, text: str) -> int:
    """Type all of it; says how many blocks there were."""
    blocks = list(BLOCK.finditer(text))
    for block in blocks:
        note = block["note"] or ""
        if block["kind"] != "console":
            name = note.removeprefix("file: ") if note.startswith("file: ") else USUAL_FILES.get(block["kind"])
            if name is not None:
                (shell.folder / name).write_text(block["text"], "utf-8")
        elif not note.startswith("not run: "):
            type_block(shell, block["text"], note=note)
    return len(blocks)
