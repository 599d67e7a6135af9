"""The one place that talks to Redis through redis-py, and the one border where its errors become ours.

What redis-py does by default and must not do here:

- It **sends a command again** after a timeout, up to ten times, so that one INCR may count eleven. Retries are off:
  an unknown outcome is reported as unknown, and the caller, who knows what may be repeated, decides.
- It has a timeout for each step of a call, and some steps have none. Here every call has one deadline, which covers
  waiting for a connection, connecting, sending and the answer. (redis-py's own `socket_timeout` is off for that reason:
  it would add nothing but a quarter to the CPU time of a command.)
- It takes a connection from a pool for each call. Here calls share one (`Wire`); those that block, and those that
  listen, have connections of their own.

A call that runs into its deadline closes the connection: a server that is silent for one is silent for all. A server
that says it is a replica, or still loading, is not the one we want: all connections to it are dropped, so that the next
call looks up and connects anew.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib import resources
from typing import Any

import hiredis
from redis.asyncio import BlockingConnectionPool, Connection, Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    MasterDownError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.maint_notifications import MaintNotificationsConfig
from redis.typing import EncodableT

from rota.application.ports.metrics import NO_METRICS, MetricsCollector
from rota.domain.errors import ConfigError, CoordinatorUnavailableError, StoreUnavailableError, UnavailableError
from rota.infrastructure.coordination.redis_wire import Wire, open_wire
from rota.infrastructure.pool_meter import PoolMeter

SHORTEST_BLOCK = timedelta(milliseconds=10)  # Redis 6 cuts a timeout below 1 ms down to 0, which blocks for ever

SERVERS: Mapping[type[UnavailableError], str] = {  # what the figures call it, by what is raised while it is away
    CoordinatorUnavailableError: "coordinator",
    StoreUnavailableError: "store",
}

Part = str | bytes | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisOptions:
    """How long to wait, and how many connections to hold."""

    answer_within: timedelta = timedelta(seconds=1)  # all in all, beside the time that a call blocks on purpose
    longest_block: timedelta = timedelta(seconds=5)  # longer waits are cut into these: a silent server is noticed
    blocking_connections: int = 64  # one for each call that blocks; as many again for listeners


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script and the name under which the server remembers it."""

    text: str
    sha: str


def load_script(name: str, package: str = "rota.infrastructure.coordination.scripts") -> Script:
    """Read `<name>.lua` of a package of scripts."""
    folder = resources.files(package)
    text = folder.joinpath(f"{name}.lua").read_text("utf-8")
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


class RedisClient:
    """Commands, scripts, blocking waits and messages. Connects with the first call; answers are bytes.

    Every method raises `CoordinatorUnavailableError`, or what else it is told to, when there was no answer, or none
    that helps.
    """

    def __init__(
        self,
        url: str,
        options: RedisOptions | None = None,
        *,
        collector: MetricsCollector = NO_METRICS,
        unavailable: type[UnavailableError] = CoordinatorUnavailableError,
    ) -> None:
        self._options = options or RedisOptions()
        self._unavailable = unavailable
        own, server = self._options.blocking_connections, SERVERS[unavailable]
        self._calls = PoolMeter(collector, server=server, pool="blocking", limit=own)
        self._sharing = PoolMeter(collector, server=server, pool="shared", limit=1)
        self._listeners = PoolMeter(collector, server=server, pool="listening", limit=own)
        try:
            self._pool = self._make_pool(url)
        except ValueError as exc:
            raise ConfigError(f"redis url: {exc}; try redis://localhost:6379/0") from exc
        self._shared: Wire | None = None
        self._connecting = asyncio.Lock()
        self._blocking = asyncio.Semaphore(self._options.blocking_connections)
        self._idle: list[Wire] = []  # those for calls that block, between two of them
        self._wires: set[Wire] = set()
        self._is_closed = False

    async def command(self, *parts: Part) -> Any:
        """One command, sent once."""
        return (await self._ask([parts]))[0]

    async def run(self, script: Script, *, keys: Sequence[str], args: Sequence[Part] = ()) -> Any:
        """One script, by its name; in full when the server does not know it (restarted, failed over)."""
        answer = await self.command("EVALSHA", script.sha, len(keys), *keys, *args)
        if isinstance(answer, NoScriptError):
            answer = await self.command("EVAL", script.text, len(keys), *keys, *args)
        return answer

    async def run_when_woken(
        self, script: Script, *, token: str, wait: timedelta, keys: Sequence[str], args: Sequence[Part] = ()
    ) -> tuple[bool, Any]:
        """One script as soon as there is a token to take, or when the wait is over: sent with the wait, in one message.

        Whether there was a token, and the script's answer. A wait longer than a call may block is over sooner."""
        named = ("EVALSHA", script.sha, len(keys), *keys, *args)
        if wait < SHORTEST_BLOCK:
            taken, answer = await self._ask([("LPOP", token), named])
        else:
            block = min(wait, self._options.longest_block)
            taken, answer = await self._block([("BLPOP", token, block.total_seconds()), named], block=block)
        if isinstance(answer, NoScriptError):
            answer = await self.run(script, keys=keys, args=args)
        return taken is not None, answer

    async def batch(self, commands: Sequence[Sequence[Part]], *, atomic: bool = False) -> list[Any]:
        """Several commands in one round trip; the answers in order."""
        if not atomic:
            return await self._ask(commands) if commands else []
        *_, answers = await self._ask([["MULTI"], *commands, ["EXEC"]])
        async with self._answered():
            return [_accept(answer) for answer in answers]

    async def command_aside(self, *parts: Part) -> Any:
        """One command on a connection of its own: a large answer must not keep the calls of others waiting."""
        (answer,) = await self._block([parts], block=timedelta(0))
        return answer

    async def wait_for_token(self, key: str, wait: timedelta) -> bool:
        """Take one token from a list, waiting for it if there is none. False when the wait is over."""
        if wait < SHORTEST_BLOCK:
            return await self.command("LPOP", key) is not None
        while wait > timedelta(0):
            block = max(min(wait, self._options.longest_block), SHORTEST_BLOCK)
            (token,) = await self._block([("BLPOP", key, block.total_seconds())], block=block)
            if token is not None:
                return True
            wait -= block
        return False

    @asynccontextmanager
    async def listen(self, channel: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The messages of a channel, from the moment the context is entered. A lost connection ends them."""
        if self._listeners.is_full:
            self._listeners.waited()
        async with Redis(connection_pool=self._pool).pubsub() as pubsub:
            async with self._answered():
                await pubsub.subscribe(channel)
                while await pubsub.get_message(timeout=self._options.answer_within.total_seconds()) is None:
                    continue  # the server's word that it counts us in; the deadline ends this
            with self._listeners.connected():
                yield self._read_messages(pubsub)

    async def close(self) -> None:
        """End all connections. Whoever still waits on one gets an error."""
        self._is_closed = True
        await asyncio.gather(*(wire.end() for wire in self._wires))
        with suppress(RedisError):  # a connection that does not close in time is gone all the same
            await self._pool.disconnect()

    async def _ask(self, commands: Sequence[Sequence[Part]]) -> list[Any]:
        # Without `_answered`: on the path of every task, its generator was an eighth of a lone call's time.
        try:
            async with asyncio.timeout(self._options.answer_within.total_seconds()) as deadline:
                wire = self._shared
                if wire is None or not wire.is_open:
                    wire = await self._connect_shared()
                return [_accept(answer) for answer in await _ask(wire, commands, deadline=deadline)]
        except (RedisError, OSError) as exc:  # TimeoutError is an OSError
            raise await self._translate(exc) from exc

    async def _connect_shared(self) -> Wire:
        async with self._connecting:
            if self._shared is None or not self._shared.is_open:
                self._shared = await self._open_wire(self._sharing)
            return self._shared

    async def _open_wire(self, meter: PoolMeter) -> Wire:
        wire = await open_wire(self._pool.make_connection(), meter)  # type: ignore[no-untyped-call]
        if self._is_closed:  # before, or while it connected: nobody would end this one
            await wire.end()
            raise RedisConnectionError("the client is closed")
        self._wires = {wire, *(other for other in self._wires if other.is_open)}
        return wire

    async def _block(self, commands: Sequence[Sequence[Part]], *, block: timedelta) -> list[Any]:
        """Commands of which one may wait at the server, and keeps the others waiting, on a connection of their own."""
        if self._blocking.locked():
            self._calls.waited()
        async with self._answered(block) as deadline, self._blocking:
            with self._calls.in_use():
                wire = self._pop_idle() or await self._open_wire(self._calls)
                try:
                    answers = await _ask(wire, commands, deadline=deadline)
                except BaseException:
                    wire.close()  # its answer may still come
                    raise
                self._idle.append(wire)
            return [_accept(answer) for answer in answers]

    def _pop_idle(self) -> Wire | None:
        while self._idle:
            if (wire := self._idle.pop()).is_open:
                return wire
        return None

    async def _read_messages(self, pubsub: PubSub) -> AsyncIterator[bytes]:
        is_asked = False  # after a silence we ask for a sign of life
        while True:
            async with self._answered(self._options.longest_block):
                message = await pubsub.get_message(timeout=self._options.longest_block.total_seconds())
                if message is None and is_asked:
                    raise TimeoutError
                is_asked = message is None
                if is_asked:
                    await pubsub.ping()
            if message is not None and message["type"] == "message":
                yield message["data"]

    @asynccontextmanager
    async def _answered(self, block: timedelta = timedelta(0)) -> AsyncIterator[asyncio.Timeout]:
        """The border: the deadline of every call, and the translation of every error."""
        try:
            async with asyncio.timeout((block + self._options.answer_within).total_seconds()) as deadline:
                yield deadline
        except (RedisError, OSError) as exc:
            raise await self._translate(exc) from exc

    async def _translate(self, error: Exception) -> UnavailableError:
        if _is_from_wrong_server(error):
            await self._drop_connections()
        return self._unavailable(f"redis: {str(error) or 'no answer in time'}")

    async def _drop_connections(self) -> None:
        for wire in self._wires:
            wire.close()
        await self._pool.update_active_connections_for_reconnect()  # type: ignore[no-untyped-call]

    def _make_pool(self, url: str) -> BlockingConnectionPool:
        """It makes the connections; those of listeners it also keeps."""
        seconds = self._options.answer_within.total_seconds()
        return BlockingConnectionPool.from_url(
            url,
            connection_class=_QuickConnection,  # for redis://; those of rediss:// and unix:// pack in Python
            max_connections=self._options.blocking_connections,
            timeout=seconds,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=None,  # the deadline is in `_answered`
            socket_connect_timeout=seconds,  # bounds closing too
            socket_keepalive=True,
            protocol=3,
            decode_responses=False,
            client_name="rota",
            driver_info=None,
            maint_notifications_config=MaintNotificationsConfig(enabled=False),
        )


class _QuickConnection(Connection):
    """Packs commands in C, as redis-py does in its other client: half the CPU time of a batch of 500."""

    def pack_command(self, *args: EncodableT) -> list[bytes]:
        return [hiredis.pack_command(args)]  # type: ignore[arg-type]  # its stub says a tuple of one


def _is_from_wrong_server(error: Exception) -> bool:
    # Redis 6 wraps the READONLY of a script in an error of its own, which redis-py does not tell apart.
    return isinstance(error, ReadOnlyError | BusyLoadingError | MasterDownError) or "READONLY" in str(error)


async def _ask(wire: Wire, commands: Sequence[Sequence[Part]], *, deadline: asyncio.Timeout) -> list[Any]:
    try:
        return await wire.ask(commands)
    except asyncio.CancelledError:
        if deadline.expired():
            wire.close()
        raise


def _accept(answer: Any) -> Any:
    """What the server said, unless it refused. (That it does not know a script is for the caller to mend.)"""
    if isinstance(answer, ResponseError) and not isinstance(answer, NoScriptError):
        raise answer
    return answer
