"""What a run of the benchmarks was made of, to tell two runs apart by: program, servers, processor, command."""

import platform
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import rota
from tests.support.servers.binaries import SERVERS, find_binary

ROOT = Path(__file__).resolve().parents[1]
NAMES = {"redis": "Redis", "mariadb": "MariaDB", "postgres": "PostgreSQL"}
_VERSION = re.compile(r"\d+(\.\d+)+")
_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)


def surroundings(command: Sequence[str]) -> dict[str, str]:
    """By what it is called for people; what this machine does not tell is left out."""
    return {name: told for name, told in _list(command) if told}


def _list(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    commit = _ask("git", "-C", str(ROOT), "describe", "--always", "--dirty")
    yield "Rota", f"{rota.__version__}, commit {commit}" if commit else rota.__version__
    yield "processor", processor()
    for kind, name in NAMES.items():
        yield name, _version_of(kind)
    yield "command", shlex.join(command)


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    try:
        found = _MODEL.search(cpuinfo.read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor()


def _version_of(kind: str) -> str:
    program = find_binary(*SERVERS[kind].programs[0])
    found = _VERSION.search(_ask(str(program), "--version")) if program else None
    return found[0] if found else ""


def _ask(*command: str) -> str:
    """What a program answers; nothing where there is none, or where it fails."""
    try:
        return subprocess.run(  # noqa: S603 our own lists
            command, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (subprocess.SubprocessError, OSError):
        return ""
