"""`make up` and `make down`: each topology comes up, says what to type, does what was typed, and is gone afterwards."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.interfaces.http.console import is_built
from tests.support.cluster import REPOSITORY, bare_environment, wait_until
from tests.support.require import require_server
from tests.support.servers.process import free_port
from tools.try_cluster import INTERRUPTED, SERVERS, TOPOLOGIES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
PODS = ["pod-1", "pod-2", "pod-3"]
NEEDS = {
    "redis+mysql": ("redis", "mariadb"),
    "sentinel": ("redis", "mariadb"),
    "cluster": ("redis", "mariadb"),
    "postgres": ("postgres",),
    "redis": ("redis",),
    "etcd": ("etcd",),
    "sqlite": (),
}


def try_cluster(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    variables = {**bare_environment(), "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(  # noqa: S603 our own program
        [sys.executable, "-m", "tools.try_cluster", *words],
        cwd=folder,
        env=variables,
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )


def type_in(folder: Path, line: str, *, said: dict[str, str]) -> str:
    """What a person would type, with the variables that were exported."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(  # noqa: S602 it is what was printed for a shell
        line,
        shell=True,
        cwd=folder,
        env={**bare_environment(), **said, "PATH": path},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_every_topology_is_known_by_its_servers() -> None:
    assert set(TOPOLOGIES) == set(SERVERS) == set(NEEDS)


@pytest.mark.parametrize("target", ["dev", "up"])
def test_what_promises_a_console_builds_it_first(target: str) -> None:
    needed = re.search(rf"^{target}: (.*) ##", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert needed is not None
    assert "try-console" in needed[1].split()


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_topology_comes_up_works_as_it_says_and_goes(topology: str, tmp_path: Path) -> None:
    for server in NEEDS[topology]:
        require_server(server)
    up = try_cluster(tmp_path, "up", "--topology", topology, "--port", str(free_port()))
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        said, (other,) = read_exports(up.stdout)
        command = next(line for line in up.stdout.splitlines() if "rota task submit" in line)
        assert "make down" in up.stdout
        assert ("(console, with the token below;" in up.stdout) == is_built()
        assert "is ready" in type_in(tmp_path, "rota health", said=said)
        assert "Ada" in type_in(tmp_path, command.strip(), said=said)
        pods = re.findall(r"kill -9 (\d+) +# (pod-\d)", up.stdout)
        assert [name for pid, name in pods if f"worker.name={name}" in Path(f"/proc/{pid}/cmdline").read_text()] == PODS
        os.kill(int(pods[0][0]), signal.SIGKILL)
        assert "is ready" in type_in(tmp_path, "rota health", said={**said, **other})
    finally:
        down = try_cluster(tmp_path, "down")
        left = read_leftovers(tmp_path)
        shutil.rmtree(tmp_path / ".rota", ignore_errors=True)
    assert "the cluster is down" in down.stdout
    assert left == [], "it said so too early"


def test_ctrl_c_while_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.try_cluster", "up", "--topology", "sqlite", "--port", str(free_port())]
    variables = {**bare_environment(), "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True) as up:  # noqa: S603 the same
        wait_until(lambda: list(tmp_path.glob(".rota/cluster/pod-1.log")), "the first pod to be started")
        up.send_signal(signal.SIGINT)
        said, _ = up.communicate(timeout=120)
    left = read_leftovers(tmp_path)
    try_cluster(tmp_path, "down")
    shutil.rmtree(tmp_path / ".rota", ignore_errors=True)
    assert (up.returncode, "ending what was started" in said) == (INTERRUPTED, True)
    assert left == []


def read_exports(printed: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The variables to begin with, and those to go on with."""
    first, *others = [
        dict(word.split("=") for word in line.partition("#")[0].split()[1:])
        for line in printed.splitlines()
        if line.startswith("  export ")
    ]
    return first, others


def read_leftovers(folder: Path) -> list[str]:
    """The command lines of processes that still work in this folder."""
    found = (path.read_bytes().replace(b"\0", b" ").decode(errors="replace") for path in _list_command_lines())
    return [line for line in found if str(folder) in line]


def _list_command_lines() -> Iterator[Path]:
    return (path for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK))
