"""How redis-py is told to connect: without retries of its own, and to whom the URL says.

A URL may hold passwords, so that an error quotes nothing of it that may be part of one.
"""

from datetime import timedelta
from typing import Any

import hiredis
from redis.asyncio import BlockingConnectionPool, Connection, SSLConnection
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.typing import EncodableT

from rota.domain.errors import ConfigError
from rota.infrastructure.coordination.redis_address import Login, Server, Topology, find_topology, parse_address
from rota.infrastructure.coordination.redis_guides import ClusterGuide, SentinelGuide
from rota.infrastructure.server_urls import SPELLED, split_url

EXAMPLE = "redis://localhost:6379/0"


class RedisConnections:
    """Makes connections and pools of them. Nothing connects here."""

    def __init__(self, url: str, *, within: timedelta, most: int) -> None:
        self._url = url
        self._address = None if find_topology(url) is None else parse_address(url)
        self._within = within
        self._most = most
        self._options: dict[str, Any] = {
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": None,  # every call has its own deadline
            "socket_connect_timeout": within.total_seconds(),  # bounds closing too
            "socket_keepalive": True,
            "protocol": 3,
            "decode_responses": False,
            "client_name": "rota",
            "driver_info": None,
            "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        }

    def make_guide(self) -> SentinelGuide | ClusterGuide | None:
        """Who says which server is to be asked; None where there is only one."""
        address = self._address
        if address is None:
            return None
        if address.topology is Topology.CLUSTER:
            return ClusterGuide(address.servers, connect=self.to_node, within=self._within)
        return SentinelGuide(
            address.servers, address.service, ask=self.to_sentinel, connect=self.to_node, within=self._within
        )

    def make_pool(self, server: Server | None) -> BlockingConnectionPool:
        """Connections to this server; without one, to that of the URL."""
        limits: dict[str, Any] = {"max_connections": self._most, "timeout": self._within.total_seconds()}
        if server is not None:
            kind, own = self._spell_node(server)
            return BlockingConnectionPool(connection_class=kind, **limits, **own)
        split_url(self._url, named="redis url", fix=EXAMPLE)
        try:
            # The class is for redis://; rediss:// and unix:// have their own, which pack in Python.
            return BlockingConnectionPool.from_url(
                self._url, connection_class=_QuickConnection, **limits, **self._options
            )
        except ValueError as exc:
            raise ConfigError(f"redis url: {_tell_no_secret(exc)}", fix=EXAMPLE) from exc

    def to_node(self, server: Server) -> AbstractConnection:
        """One to a server that holds data."""
        kind, own = self._spell_node(server)
        return kind(**own)

    def to_sentinel(self, server: Server) -> AbstractConnection:
        """One to a Sentinel. In RESP2, where a message is an answer as any other."""
        kind, own = _spell(Login() if self._address is None else self._address.sentinels)
        return kind(host=server.host, port=server.port, **(self._options | own | {"protocol": 2}))

    def _spell_node(self, server: Server) -> tuple[type[Connection], dict[str, Any]]:
        kind, own = _spell(Login() if self._address is None else self._address.nodes)
        database = 0 if self._address is None else self._address.database
        return kind, self._options | own | {"host": server.host, "port": server.port, "db": database}


class _QuickConnection(Connection):
    """Packs commands in C, as redis-py does in its other client: half the CPU time of a batch of 500."""

    def pack_command(self, *args: EncodableT) -> list[bytes]:
        return [hiredis.pack_command(args)]  # type: ignore[arg-type]  # its stub says a tuple of one


def _spell(login: Login) -> tuple[type[Connection], dict[str, Any]]:
    """A login as redis-py takes it."""
    own: dict[str, Any] = {"username": login.user or None, "password": login.password or None}
    if not login.has_tls:
        return _QuickConnection, own
    return SSLConnection, own | {"ssl_ca_certs": login.ca, "ssl_certfile": login.cert, "ssl_keyfile": login.key}


def _tell_no_secret(error: ValueError) -> str:
    """What is wrong with a URL. A password with a slash in it would be quoted as a port."""
    text = str(error)
    return f"the port is no number; {SPELLED}" if text.startswith("Port ") else text
