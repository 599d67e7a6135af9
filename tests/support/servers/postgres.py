"""A private PostgreSQL on loopback: user `rota`, no password, a database `rota` from the first start on.

By default `fsync` is off: a killed server loses nothing, since commits still reach the operating system, but a power
cut might ruin the folder. `durable=True` is what production runs and benchmarks must.

Signals differ from other servers. SIGTERM waits until every client has left, so we stop with SIGINT. When the tests
die, SIGQUIT ends all sessions at once and, unlike SIGKILL, gives the shared memory back.
"""

import signal
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.support.servers.binaries import get_binary
from tests.support.servers.process import (
    Program,
    ServerProcess,
    free_port,
    private_directory,
    run_tool,
)

NOT_DURABLE = ("fsync=off", "full_page_writes=off")  # synchronous_commit stays on: it is what survives `kill`


class PostgresServer(ServerProcess):
    def __init__(self, *, durable: bool = False, settings: Sequence[str] = ()) -> None:
        """`settings` are further `name=value` lines of postgresql.conf; the last one of a name wins."""
        self._bin = get_binary("postgres").parent
        self.port = free_port()
        directory = private_directory("postgres")
        self._data = directory / "data"
        program = Program(
            command=self._command(directory, [*(() if durable else NOT_DURABLE), *settings]),
            is_ready=partial(_accepts_logins, self._bin / "pg_isready", self.port),
            stop_signal=signal.SIGINT,
            orphan_signal=signal.SIGQUIT,
        )
        super().__init__(program, directory)

    def url(self, database: str = "rota") -> str:
        return f"postgresql://rota@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        is_new = not self._data.exists()
        if is_new:
            self._initialise()
        super().start()
        if is_new:
            self.create_database("rota")

    def create_database(self, name: str) -> None:
        self.execute(f'CREATE DATABASE "{name}"', database="postgres")

    def execute(self, sql: str, *, database: str = "rota") -> str:
        """Run SQL through the server's own client; the answer is rows of tab-separated text."""
        return run_tool([*self.client_command(database), f"--command={sql}"], self.directory)

    def client_command(self, database: str = "rota") -> list[str]:
        """A client that reads SQL from its standard input and answers line by line."""
        login = ["--host=127.0.0.1", f"--port={self.port}", "--username=rota", "--no-password"]
        form = ["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--field-separator=\t"]
        return [str(self._bin / "psql"), *login, *form, "--set=ON_ERROR_STOP=1", database]

    def _command(self, directory: Path, settings: Sequence[str]) -> tuple[str, ...]:
        network = ("listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={directory}")
        chosen = (*network, "max_connections=300", "timezone=UTC", *settings)
        return (str(self._bin / "postgres"), "-D", str(self._data), *(word for line in chosen for word in ("-c", line)))

    def _initialise(self) -> None:
        rules = ["--auth=trust", "--username=rota", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        run_tool([str(self._bin / "initdb"), "-D", str(self._data), *rules], self.directory)


def _accepts_logins(pg_isready: Path, port: int) -> bool:
    command = [str(pg_isready), "--quiet", "--host=127.0.0.1", f"--port={port}", "--username=rota", "--timeout=1"]
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603 - a list of arguments, no shell
