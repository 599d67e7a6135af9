"""Install the servers the tests need: `python -m tests.support.servers.install`.

Looks first and installs only what is missing, with apt when we are root. What is here by a wheel alone is asked of apt
beside that, and never by itself: where the distribution does not have it, every run would ask again. A laptop without
root is told what to type and goes on (its tests skip, visibly); with `CI=true` a server that stays missing ends this
with exit code 1.

Debian starts the service of a package it installs. Tests use private servers only, so while apt runs a
`policy-rc.d` that forbids starting is put in place, unless the machine has one already, whose owner then decides.
"""

# ruff: noqa: T201 - printing for a person is the purpose of this module

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.binaries import SERVERS, ServerKind, find_binary

POLICY = Path("/usr/sbin/policy-rc.d")
FORBID_STARTING_SERVICES = "#!/bin/sh\nexit 101\n"
APT_OPTIONS = ("-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3")  # another apt may be at work: wait


def main() -> int:
    wanted = choose(list(SERVERS.values()))
    for kind in SERVERS.values():
        if kind not in wanted:
            _report(kind)
    if wanted and _can_install():
        _install(wanted)
    still_missing = [kind for kind in wanted if not _report(kind)]
    return 1 if still_missing and os.environ.get("CI") == "true" else 0


def choose(kinds: Sequence[ServerKind]) -> list[ServerKind]:
    """Those to install, if any is missing."""
    wanted = [kind for kind in kinds if kind.list_missing() or kind.is_from_wheel()]
    return wanted if any(kind.list_missing() for kind in wanted) else []


def _can_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _install(kinds: Sequence[ServerKind]) -> None:
    print("apt-get update ...", flush=True)
    if not _run_apt("update"):
        print("apt-get update failed; trying with the package lists at hand", flush=True)
    with _services_stay_down():
        for kind in kinds:
            print(f"{kind.name}: installing {' '.join(kind.packages)} ...", flush=True)
            _run_apt("install", "-y", "--no-install-recommends", *kind.packages)


def _run_apt(*arguments: str) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", *APT_OPTIONS, *arguments]
    # S603: a fixed list of arguments, no shell.
    finished = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)  # noqa: S603
    return finished.returncode == 0


@contextmanager
def _services_stay_down() -> Iterator[None]:
    if POLICY.exists():
        yield
        return
    POLICY.write_text(FORBID_STARTING_SERVICES, encoding="utf-8")
    POLICY.chmod(0o755)  # it is run by apt's package scripts
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def _report(kind: ServerKind) -> bool:
    absent = kind.list_missing()
    if not absent:
        print(f"{kind.name}: found at {find_binary(*kind.programs[0])}")
        return True
    command = f"sudo apt-get install --no-install-recommends {' '.join(kind.packages)}"
    print(f"{kind.name}: missing {', '.join(absent)}: {command}  (or point ROTA_TEST_BIN at its folder)")
    return False


if __name__ == "__main__":
    sys.exit(main())
