"""The units of systemd: what they start, how long they wait, and what systemd itself says of them."""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.check_deploy.product import Launch, check_launch, drains_within, keeps_results

PROGRAM = "/opt/rota/bin/rota"
STAND_IN = "/bin/true"  # the program is not installed where this is checked
SPECIFIER = re.compile(r"%[a-zA-Z]")
MOST_EXPOSED = 20  # of 100, by systemd's own count; `rota dev` is for a person, whose files it shares
COUNTS_FILES = 250  # the first systemd that counts for a unit that is not installed
NOT_COUNTED = frozenset({"rota-dev.service"})


def check_units(folder: Path) -> Iterator[str]:
    units = sorted(folder.glob("*.service"))
    for unit in units:
        yield from _check_unit(unit, folder)
    yield from _ask_systemd(units)


def _check_unit(unit: Path, folder: Path) -> Iterator[str]:
    options = [line.partition("=")[::2] for line in unit.read_text("utf-8").splitlines() if not line.startswith("#")]
    commands = [shlex.split(value) for name, value in options if name == "ExecStart"]
    given = [shlex.split(value)[0] for name, value in options if name == "Environment"]
    variables = {name: SPECIFIER.sub("x", value) for name, _, value in (one.partition("=") for one in given)}
    if any(name == "EnvironmentFile" and value.startswith("-") for name, value in options):
        yield f"{unit.name}: starts without its EnvironmentFile, on a store of its own"
    if any(name == "EnvironmentFile" for name, _ in options):
        variables |= _read_variables(folder / "rota.env")
    file = folder / "rota.yaml" if variables.pop("ROTA_CONFIG", None) == "/etc/rota/rota.yaml" else None
    waits = next((float(value) for name, value in options if name == "TimeoutStopSec"), None)
    for program, *words in commands:
        launch = Launch(unit.name, words, variables, file)
        if program != PROGRAM:
            yield f"{unit.name}: starts {program}, the others {PROGRAM}"
        yield from check_launch(launch)
        yield from keeps_results(launch, {f"/var/lib/{value}" for name, value in options if name == "StateDirectory"})
        if waits is not None:
            yield from drains_within(launch, waits)
    kind = next((value for name, value in options if name == "Type"), "simple")
    if kind == "notify":
        yield f"{unit.name}: Type=notify, which Rota does not do"
    if waits is None and kind != "oneshot":
        yield f"{unit.name}: does not say how long it may take to stop"


def _read_variables(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def _ask_systemd(units: list[Path]) -> Iterator[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        print("systemd-analyze is not here: the units are not shown to it")
        return
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder) / unit.name for unit in units]
        for unit, copy in zip(units, copies, strict=True):
            copy.write_text(unit.read_text("utf-8").replace(PROGRAM, STAND_IN), "utf-8")
        yield from _run(program, "verify", "--man=no", *map(str, copies))
        for copy in copies if _version_of(program) >= COUNTS_FILES else ():
            if copy.name not in NOT_COUNTED:
                rule = f"--threshold={MOST_EXPOSED}"
                yield from _run(program, "security", "--offline=true", "--no-pager", rule, str(copy))


def _version_of(program: str) -> int:
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True, timeout=60)  # noqa: S603
    return int(said.stdout.split()[1].partition(".")[0])  # systemd 252 (252.39-1~deb12u1)


def _run(*command: str) -> Iterator[str]:
    done = subprocess.run(  # noqa: S603 a list of arguments, no shell
        command, check=False, capture_output=True, text=True, timeout=60
    )
    if done.returncode != 0:
        yield f"{' '.join(Path(word).name for word in command)}: {(done.stderr or done.stdout).strip()[-1000:]}"
