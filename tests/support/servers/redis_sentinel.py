"""A private Redis with replicas, and Sentinels that watch over it: each of them can be hurt by itself.

Who is who stands in the files that the Sentinels begin with, so that they need not find each other first.
"""

import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from redis.exceptions import ResponseError

from tests.support.servers.binaries import get_binary
from tests.support.servers.process import Program, ServerProcess, free_port, private_directory, wait_for
from tests.support.servers.redis import RedisServer, answers_ping, ask

SERVICE = "shop"
PATIENT = timedelta(seconds=5)  # a busy machine is not a dead one
QUICK = timedelta(seconds=1)
LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Watch:
    """Whom a Sentinel watches over, with whom, and how soon it takes a server for dead."""

    nodes: Sequence[int]  # ports, that of the primary first
    others: Sequence[tuple[int, str]]  # ports and ids of the other Sentinels
    down_after: timedelta
    password: str


class SentinelServer(ServerProcess):
    def __init__(self, port: int, own_id: str, *, watch: Watch, options: Sequence[str] = ()) -> None:
        self.port = port
        directory = private_directory("sentinel")
        config = directory / "sentinel.conf"
        config.write_text("\n".join([*_spell(own_id, watch), *options]))
        config.chmod(0o666)  # it is rewritten by who the server runs as
        command = (str(get_binary("redis-server")), str(config), "--sentinel", "--bind", LOCAL, "--port", str(port))
        super().__init__(Program(command=command, is_ready=partial(answers_ping, port)), directory)


class RedisSentinels:
    """A primary, two replicas, three Sentinels."""

    def __init__(
        self,
        *,
        down_after: timedelta = PATIENT,
        password: str = "",
        sentinel_password: str = "",
        replicas: int = 2,
        durable: bool = False,
    ) -> None:
        own = ("--requirepass", password, "--masterauth", password) if password else ()
        usual = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", *own)
        first = RedisServer(options=usual, durable=durable, config=())
        follow = (f"replicaof {LOCAL} {first.port}",)
        self.nodes = [first, *(RedisServer(options=usual, durable=durable, config=follow) for _ in range(replicas))]
        named = [(free_port(), secrets.token_hex(20)) for _ in range(3)]
        ports = [node.port for node in self.nodes]
        extra = (f"requirepass {sentinel_password}",) if sentinel_password else ()
        self.sentinels = [
            SentinelServer(
                port,
                own_id,
                watch=Watch(ports, [one for one in named if one[0] != port], down_after, password),
                options=extra,
            )
            for port, own_id in named
        ]
        self._password, self._sentinel_password = password, sentinel_password
        self._stack = ExitStack()

    def __enter__(self) -> "RedisSentinels":
        for server in (*self.nodes, *self.sentinels):
            self._stack.callback(server.close)
            server.launch()
        for server in (*self.nodes, *self.sentinels):
            server.wait_until_ready()
        wait_for(self._is_complete, "replicas that follow, and Sentinels that know it")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def url(self, database: str = "0") -> str:
        login = f":{self._password}@" if self._password else ""
        servers = ",".join(f"{LOCAL}:{sentinel.port}" for sentinel in self.sentinels)
        options = f"?sentinel_password={self._sentinel_password}" if self._sentinel_password else ""
        return f"redis+sentinel://{login}{servers}/{SERVICE}/{database}{options}"

    @property
    def primary(self) -> RedisServer:
        """The one that the first Sentinel names."""
        _, port = self.ask_sentinel("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(node for node in self.nodes if node.port == int(port))

    @property
    def replicas(self) -> list[RedisServer]:
        primary = self.primary
        return [node for node in self.nodes if node is not primary]

    def ask_sentinel(self, *command: str) -> Sequence[bytes]:
        answer: Sequence[bytes] = ask(self.sentinels[0].port, *command, password=self._sentinel_password)
        return answer

    def fail_over(self) -> None:
        """Let another become the primary. A Sentinel that has not heard of a replica lately has none to offer."""

        def has_begun() -> bool:
            try:
                self.ask_sentinel("SENTINEL", "FAILOVER", SERVICE)
            except ResponseError as error:
                if str(error).startswith("NOGOODSLAVE"):
                    return False
                raise
            return True

        old = self.primary
        wait_for(has_begun, "a replica that can be promoted")
        wait_for(lambda: self.primary is not old, "a failover")

    def ask(self, node: RedisServer, *command: str) -> object:
        return ask(node.port, *command, password=self._password)

    def _is_complete(self) -> bool:
        told = ask(self.nodes[0].port, "INFO", "replication", password=self._password)
        return told.count(b"state=online") == len(self.nodes) - 1 and all(
            _is_watching(sentinel, self._sentinel_password) for sentinel in self.sentinels
        )


def _is_watching(sentinel: SentinelServer, password: str) -> bool:
    try:
        ask(sentinel.port, "SENTINEL", "CKQUORUM", SERVICE, password=password)
    except ResponseError:  # it does not see the others yet
        return False
    return True


def _spell(own_id: str, watch: Watch) -> list[str]:
    primary, *replicas = watch.nodes
    down_after = watch.down_after // timedelta(milliseconds=1)
    lines = [
        f"sentinel myid {own_id}",
        f"sentinel monitor {SERVICE} {LOCAL} {primary} 2",
        f"sentinel down-after-milliseconds {SERVICE} {down_after}",
        f"sentinel failover-timeout {SERVICE} {10 * down_after}",
        f"sentinel parallel-syncs {SERVICE} 2",
    ]
    lines += [f"sentinel auth-pass {SERVICE} {watch.password}"] if watch.password else []
    lines += [f"sentinel known-replica {SERVICE} {LOCAL} {port}" for port in replicas]
    return lines + [f"sentinel known-sentinel {SERVICE} {LOCAL} {port} {one}" for port, one in watch.others]
