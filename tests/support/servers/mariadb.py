"""A private MariaDB on loopback: user `root`, no password, a database `rota` from the first start on.

By default commits reach the operating system but not the disk: a killed server loses nothing, a power cut might.
`durable=True` flushes on every commit, as production does and as benchmarks must.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.servers.binaries import get_binary
from tests.support.servers.process import Program, ServerProcess, free_port, private_directory, run_tool

PROBE_SECONDS = 0.5
GREETING_VERSION = 10  # first byte of the greeting that the server sends once it accepts logins


@dataclass(frozen=True, slots=True, kw_only=True)
class MariaDbOptions:
    durable: bool = False
    buffer_pool_size: str = "128M"
    log_file_size: str = "48M"
    extra: Sequence[str] = ()

    def as_arguments(self) -> tuple[str, ...]:
        flushing = () if self.durable else ("--innodb-flush-method=nosync",)
        return (
            f"--innodb-flush-log-at-trx-commit={1 if self.durable else 2}",
            f"--innodb-buffer-pool-size={self.buffer_pool_size}",
            f"--innodb-log-file-size={self.log_file_size}",
            *flushing,
        )


class MariaDbServer(ServerProcess):
    def __init__(self, options: MariaDbOptions | None = None) -> None:
        self._options = options or MariaDbOptions()
        binary = get_binary("mariadbd", "mysqld")
        self.port = free_port()
        directory = private_directory("mariadb")
        self._data = directory / "data"
        command = (str(binary), *_server_arguments(directory, self.port), *self._options.as_arguments())
        program = Program(command=(*command, *self._options.extra), is_ready=partial(_greets, self.port))
        super().__init__(program, directory)

    def url(self, database: str = "rota") -> str:
        return f"mysql://root@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        is_new = not self._data.exists()
        if is_new:
            self._initialise()
        super().start()
        if is_new:
            self.create_database("rota")

    def create_database(self, name: str) -> None:
        self.execute(f"CREATE DATABASE `{name}`", database="mysql")

    def execute(self, sql: str, *, database: str = "rota") -> str:
        """Run SQL through the server's own client; the answer is rows of tab-separated text."""
        return run_tool([*self.client_command(database), f"--execute={sql}"], self.directory)

    def client_command(self, database: str = "rota") -> list[str]:
        """A client that reads SQL from its standard input and answers line by line."""
        login = ["--host=127.0.0.1", f"--port={self.port}", "--user=root", "--protocol=tcp"]
        form = ["--batch", "--skip-column-names", "--unbuffered", "--default-character-set=utf8mb4"]
        return [str(get_binary("mariadb", "mysql")), "--no-defaults", *login, *form, database]

    def _initialise(self) -> None:
        command = [str(get_binary("mariadb-install-db")), "--no-defaults", f"--datadir={self._data}"]
        # A server that starts removes every temporary table it finds: in a folder shared with others, theirs too.
        command.append(f"--tmpdir={self.directory}")
        rules = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        run_tool([*command, *rules, *self._options.as_arguments()], self.directory)


def _server_arguments(directory: Path, port: int) -> tuple[str, ...]:
    return (
        "--no-defaults",
        f"--datadir={directory / 'data'}",
        f"--socket={directory / 'mariadb.sock'}",
        f"--pid-file={directory / 'mariadb.pid'}",
        f"--tmpdir={directory}",
        "--skip-networking=0",
        "--bind-address=127.0.0.1",
        f"--port={port}",
        "--skip-name-resolve",
        "--skip-log-bin",
        "--max-connections=300",
        "--character-set-server=utf8mb4",
    )


def _greets(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PROBE_SECONDS) as connection:
            greeting = connection.recv(64)
    except OSError:
        return False
    return len(greeting) > 4 and greeting[4] == GREETING_VERSION
