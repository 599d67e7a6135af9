"""A private Redis on loopback.

By default it keeps nothing: a restart is empty, like a cache that lost its machine. With `durable=True` every write is
in the append-only file before it is answered, so a killed server comes back with all of it; only a power cut may cost
the last second.
"""

import socket
from collections.abc import Sequence
from functools import partial
from typing import Any

from redis.backoff import NoBackoff
from redis.connection import Connection
from redis.retry import Retry

from tests.support.servers.binaries import get_binary
from tests.support.servers.process import Program, ServerProcess, free_port, private_directory

PROBE_SECONDS = 0.5
ASK_SECONDS = 5.0


class RedisServer(ServerProcess):
    def __init__(
        self, *, durable: bool = False, options: Sequence[str] = (), config: Sequence[str] | None = None
    ) -> None:
        """`config`: lines of a file that Redis rewrites when it is given another role; a restart finds that role."""
        binary = get_binary("redis-server")
        self.port = free_port()
        directory = private_directory("redis")
        path = directory / "redis.conf"
        if config is not None:
            path.write_text("\n".join(config))
            path.chmod(0o666)  # it is rewritten by who the server runs as
        command = (
            *(str(binary), *(() if config is None else (str(path),))),
            *("--bind", "127.0.0.1", "--port", str(self.port), "--daemonize", "no"),
            *("--dir", str(directory), "--unixsocket", str(directory / "redis.sock"), "--save", ""),
            *("--appendonly", "yes" if durable else "no", "--appendfsync", "everysec"),
            *options,
        )
        super().__init__(Program(command=command, is_ready=partial(answers_ping, self.port)), directory)

    def url(self, database: str = "0") -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"


def answers_ping(port: int) -> bool:
    """Whether it can be talked to; one that wants a password says so."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PROBE_SECONDS) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))  # not while it answers -LOADING
    except OSError:
        return False


def ask(port: int, *command: str, password: str = "") -> Any:
    """What a server says to one command, as bytes. It may be busy for a while."""
    connection = Connection(  # type: ignore[no-untyped-call]
        host="127.0.0.1",
        port=port,
        password=password or None,
        socket_timeout=ASK_SECONDS,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )
    try:
        connection.send_command(*command)  # type: ignore[no-untyped-call]
        return connection.read_response()
    finally:
        connection.disconnect()  # type: ignore[no-untyped-call]
