"""A private Redis on loopback.

By default it keeps nothing: a restart is empty, like a cache that lost its machine. With `durable=True` every write is
in the append-only file before it is answered, so a killed server comes back with all of it; only a power cut may cost
the last second.
"""

import socket
from collections.abc import Sequence
from functools import partial

from tests.support.servers.binaries import get_binary
from tests.support.servers.process import Program, ServerProcess, free_port, private_directory

PROBE_SECONDS = 0.5


class RedisServer(ServerProcess):
    def __init__(self, *, durable: bool = False, options: Sequence[str] = ()) -> None:
        binary = get_binary("redis-server")
        self.port = free_port()
        directory = private_directory("redis")
        command = (
            *(str(binary), "--bind", "127.0.0.1", "--port", str(self.port), "--daemonize", "no"),
            *("--dir", str(directory), "--unixsocket", str(directory / "redis.sock"), "--save", ""),
            *("--appendonly", "yes" if durable else "no", "--appendfsync", "everysec"),
            *options,
        )
        super().__init__(Program(command=command, is_ready=partial(_answers_ping, self.port)), directory)

    def url(self, database: str = "0") -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"


def _answers_ping(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PROBE_SECONDS) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")  # not while it answers -LOADING
    except OSError:
        return False
