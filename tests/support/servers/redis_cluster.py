"""A private Redis Cluster: three primaries, each with a replica; each node can be hurt by itself.

Who has which slots stands in the file that each node begins with, so that nobody needs to bring them together.
"""

import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta

from redis.crc import key_slot

from tests.support.servers.process import free_port, wait_for
from tests.support.servers.redis import RedisServer, ask

PATIENT = timedelta(seconds=10)  # a busy machine is not a dead one
QUICK = timedelta(seconds=1)
LOCAL = "127.0.0.1"
SLOTS = 16384


@dataclass(frozen=True, slots=True)
class Node:
    id: str
    server: RedisServer
    bus_port: int

    def is_primary(self) -> bool:
        return b"role:master" in ask(self.server.port, "INFO", "replication")


class RedisCluster:
    def __init__(self, *, node_timeout: timedelta = PATIENT, primaries: int = 3, durable: bool = False) -> None:
        self._primaries = primaries
        self.nodes = [_make_node(node_timeout, durable=durable) for _ in range(2 * primaries)]
        for number, node in enumerate(self.nodes):
            path = node.server.directory / "nodes.conf"
            path.write_text(self._spell(number))
            path.chmod(0o666)  # it is rewritten by who the server runs as
        self._stack = ExitStack()

    def __enter__(self) -> "RedisCluster":
        for node in self.nodes:
            self._stack.callback(node.server.close)
            node.server.launch()
        for node in self.nodes:
            node.server.wait_until_ready()
        wait_for(self.is_well, "a cluster in which replicas follow")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def url(self) -> str:
        return f"redis+cluster://{','.join(f'{LOCAL}:{node.server.port}' for node in self.nodes[:3])}"

    def find_owner(self, key: str) -> Node:
        """The primary that has a key, by the word of one that lives."""
        slot = key_slot(key.encode())
        asked = next(node for node in self.nodes if node.server.is_running)
        for first, last, (_, port, *_), *_ in ask(asked.server.port, "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.server.port == port)
        raise AssertionError(f"nobody has the slot {slot}")

    def list_replicas(self, node: Node) -> list[Node]:
        told = ask(node.server.port, "CLUSTER", "REPLICAS", node.id)
        return [one for one in self.nodes if any(line.startswith(one.id.encode()) for line in told)]

    def is_well(self) -> bool:
        """Whether all say so, and all replicas follow."""
        states = [ask(node.server.port, "CLUSTER", "INFO") for node in self.nodes]
        links = [ask(node.server.port, "INFO", "replication") for node in self.nodes]
        follow = sum(b"master_link_status:up" in link for link in links)
        return all(b"cluster_state:ok" in state for state in states) and follow == len(self.nodes) - self._primaries

    def _spell(self, own: int) -> str:
        """`nodes.conf` of one of them."""
        lines = []
        for number, node in enumerate(self.nodes):
            place, me = f"{node.id} {LOCAL}:{node.server.port}@{node.bus_port}", "myself," if number == own else ""
            epoch = number % self._primaries + 1
            if number < self._primaries:
                first, last = (SLOTS * bound // self._primaries for bound in (number, number + 1))
                lines.append(f"{place} {me}master - 0 0 {epoch} connected {first}-{last - 1}")
            else:
                lines.append(f"{place} {me}slave {self.nodes[epoch - 1].id} 0 0 {epoch} connected")
        return "\n".join([*lines, f"vars currentEpoch {self._primaries} lastVoteEpoch 0", ""])


def _make_node(node_timeout: timedelta, *, durable: bool) -> Node:
    bus_port = free_port()
    options = (
        *("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", str(bus_port)),
        *("--cluster-node-timeout", str(node_timeout // timedelta(milliseconds=1))),
        *("--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"),
    )
    return Node(secrets.token_hex(20), RedisServer(options=options, durable=durable), bus_port)
