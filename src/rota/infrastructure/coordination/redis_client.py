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

Where several servers are one Redis (`redis+sentinel://`, `redis+cluster://`), a guide says which of them to connect to
(`redis_guides.py`), and is asked again after every failure. What a node of a cluster refuses because another one has
the keys was not done, so it is asked of that one. All keys of a client must share one hash tag.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from importlib import resources
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.client import PubSub
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from rota.application.ports.metrics import NO_METRICS, MetricsCollector
from rota.application.ports.system import Clock
from rota.domain.errors import CoordinatorUnavailableError, StoreUnavailableError, UnavailableError
from rota.infrastructure.coordination.redis_address import Server
from rota.infrastructure.coordination.redis_connections import RedisConnections
from rota.infrastructure.coordination.redis_guides import ClusterGuide, SentinelGuide, locate
from rota.infrastructure.coordination.redis_refusals import tell_refusal
from rota.infrastructure.coordination.redis_wire import Wire, open_wire
from rota.infrastructure.pool_meter import PoolMeter
from rota.infrastructure.system import SystemClock

SHORTEST_BLOCK = timedelta(milliseconds=10)  # Redis 6 cuts a timeout below 1 ms down to 0, which blocks for ever

SERVERS: Mapping[type[UnavailableError], str] = {  # what the figures call it, by what is raised while it is away
    CoordinatorUnavailableError: "coordinator",
    StoreUnavailableError: "store",
}
MOST_REDIRECTS = 3  # of one call; more are a cluster that is being rearranged: try later

Part = str | bytes | int | float
Again = Callable[[Sequence[Sequence[Part]]], Awaitable[list[Any]]]


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


@dataclass(slots=True, eq=False)
class _Stay:
    """At one server: what makes the connections to it, and keeps those of listeners."""

    server: Server | None  # None: the only one there is
    pool: BlockingConnectionPool
    is_over: bool = False
    listening: set[asyncio.Timeout] = field(default_factory=set)  # who waits for messages

    def end(self) -> None:
        """Let listeners wait no longer. (Told that its connection is gone, redis-py would first connect again.)"""
        self.is_over = True
        for deadline in self.listening:
            _put_off(deadline, timedelta(0))


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
        clock: Clock | None = None,
        unavailable: type[UnavailableError] = CoordinatorUnavailableError,
    ) -> None:
        self._options = options or RedisOptions()
        self._clock = clock or SystemClock()
        self._unavailable = unavailable
        own, server = self._options.blocking_connections, SERVERS[unavailable]
        self._calls = PoolMeter(collector, server=server, pool="blocking", limit=own)
        self._sharing = PoolMeter(collector, server=server, pool="shared", limit=1)
        self._listeners = PoolMeter(collector, server=server, pool="listening", limit=own)
        self._connections = RedisConnections(url, within=self._options.answer_within, most=own)
        self._guide = self._connections.make_guide()
        self._stays: dict[Server, _Stay] = {}  # where we are, or were in this cluster
        self._stay = _Stay(None, self._connections.make_pool(None)) if self._guide is None else None
        self._watching: asyncio.Task[None] | None = None
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
        if isinstance(self._guide, ClusterGuide):  # any node would do; but only the loss of this one matters to calls
            await self.command("EXISTS", channel)
        async with self._answered():
            stay = await self._find_stay()
        async with Redis(connection_pool=stay.pool).pubsub() as pubsub:
            async with self._answered():
                await pubsub.subscribe(channel)
                while await pubsub.get_message(timeout=self._options.answer_within.total_seconds()) is None:
                    continue  # the server's word that it counts us in; the deadline ends this
            with self._listeners.connected():
                yield self._read_messages(pubsub, stay)

    async def close(self) -> None:
        """End all connections. Whoever still waits on one gets an error."""
        self._is_closed = True
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await asyncio.gather(*(wire.end() for wire in self._wires))
        for stay in (self._stay, *self._stays.values()):
            if stay is not None:
                await self._end(stay)

    async def _ask(self, commands: Sequence[Sequence[Part]]) -> list[Any]:
        # Without `_answered`: on the path of every task, its generator was an eighth of a lone call's time.
        try:
            async with asyncio.timeout(self._options.answer_within.total_seconds()) as deadline:
                wire = self._shared
                if wire is None or not wire.is_open:
                    wire = await self._connect_shared()
                answers = await _ask(wire, commands, deadline=deadline)
                try:
                    return [_accept(answer) for answer in answers]
                except AskError:
                    return await self._follow(commands, answers, again=partial(self._ask_shared, deadline))
        except (RedisError, OSError) as exc:  # TimeoutError is an OSError
            raise await self._translate(exc) from exc

    async def _ask_shared(self, deadline: asyncio.Timeout, commands: Sequence[Sequence[Part]]) -> list[Any]:
        return await _ask(await self._connect_shared(), commands, deadline=deadline)

    async def _connect_shared(self) -> Wire:
        async with self._connecting:
            if self._shared is None or not self._shared.is_open:
                self._shared = await self._open_wire(self._sharing)
            return self._shared

    async def _open_wire(self, meter: PoolMeter) -> Wire:
        async with asyncio.timeout(self._options.answer_within.total_seconds()):  # also where the call may wait longer
            stay = await self._find_stay()
            wire = await open_wire(stay.pool.make_connection(), meter)  # type: ignore[no-untyped-call]
        if self._is_closed or stay.is_over:  # before, or while it connected: nobody would end this one
            await wire.end()
            raise RedisConnectionError("the client is closed" if self._is_closed else "the primary is another one now")
        self._wires = {wire, *(other for other in self._wires if not other.is_over)}
        return wire

    async def _block(self, commands: Sequence[Sequence[Part]], *, block: timedelta) -> list[Any]:
        """Commands of which one may wait at the server, and keeps the others waiting, on a connection of their own."""
        if self._blocking.locked():
            self._calls.waited()
        async with self._answered(block) as deadline, self._blocking:
            with self._calls.in_use():
                answers = await self._ask_apart(deadline, commands)
                try:
                    return [_accept(answer) for answer in answers]
                except AskError:  # maybe after half the wait: elsewhere it begins anew
                    _put_off(deadline, block + self._options.answer_within)
                    return await self._follow(commands, answers, again=partial(self._ask_apart, deadline))

    async def _ask_apart(self, deadline: asyncio.Timeout, commands: Sequence[Sequence[Part]]) -> list[Any]:
        wire = self._pop_idle() or await self._open_wire(self._calls)
        try:
            answers = await _ask(wire, commands, deadline=deadline)
        except BaseException:
            wire.close()  # its answer may still come
            raise
        self._idle.append(wire)
        return answers

    async def _follow(self, commands: Sequence[Sequence[Part]], answers: list[Any], *, again: Again) -> list[Any]:
        """What a node of a cluster refused, because another one has the keys, is asked of that one."""
        for _ in range(MOST_REDIRECTS):
            told = next((answer for answer in answers if isinstance(answer, AskError)), None)
            here = None if self._stay is None else self._stay.server
            if told is None or here is None or not isinstance(self._guide, ClusterGuide):
                break
            places = _list_refused(commands, answers)
            refused = [commands[place] for place in places]
            if isinstance(told, MovedError):
                if self._guide.follow(told, asked=here) != here:
                    self._retire_wires()
                said = await again(refused)
            else:
                said = await self._ask_there(locate(told.host, told.port, asked=here), refused)
            for place, answer in zip(places, said, strict=True):
                answers[place] = answer
        return [_accept(answer) for answer in answers]

    async def _ask_there(self, server: Server, commands: Sequence[Sequence[Part]]) -> list[Any]:
        """This once only: the slot is on its way to that node."""
        wire = await open_wire(self._connections.to_node(server), self._calls)
        try:
            if _is_transaction(commands):
                return (await wire.ask([("ASKING",), *commands]))[1:]
            return (await wire.ask([part for command in commands for part in (("ASKING",), command)]))[1::2]
        finally:
            await wire.end()

    def _pop_idle(self) -> Wire | None:
        while self._idle:
            if (wire := self._idle.pop()).is_open:
                return wire
        return None

    async def _read_messages(self, pubsub: PubSub, stay: _Stay) -> AsyncIterator[bytes]:
        is_asked = False  # after a silence we ask for a sign of life
        while True:
            async with self._answered(self._options.longest_block) as deadline:
                if stay.is_over:
                    raise RedisConnectionError("the primary is another one now")
                stay.listening.add(deadline)
                try:
                    message = await pubsub.get_message(timeout=self._options.longest_block.total_seconds())
                finally:
                    stay.listening.remove(deadline)
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
        is_wrong = _is_from_wrong_server(error)
        if self._guide is not None and (is_wrong or not isinstance(error, ResponseError)):
            self._guide.forget()
        if is_wrong:
            await self._drop_connections()
        if isinstance(error, AskError) and isinstance(self._guide, ClusterGuide):  # it is being rearranged
            return self._unavailable(f"redis: {error}")
        problem, fix = tell_refusal(error)
        return self._unavailable(f"redis: {problem}", fix=fix)

    async def _drop_connections(self) -> None:
        self._close_wires()
        if self._stay is not None:
            await self._stay.pool.update_active_connections_for_reconnect()  # type: ignore[no-untyped-call]

    def _close_wires(self) -> None:
        for wire in self._wires:
            wire.close()

    def _retire_wires(self) -> None:
        """Ask nothing more there. Who still waits gets an answer: the node is alive, or its connections break."""
        for wire in self._wires:
            wire.retire()

    async def _find_stay(self) -> _Stay:
        """At the server that is to be asked now."""
        if self._guide is None and self._stay is not None:
            return self._stay
        server = None if self._guide is None else await self._guide.find()
        if server is None or self._is_closed:  # before, or while we looked: nobody would end what begins here
            raise RedisConnectionError("the client is closed")
        if isinstance(self._guide, SentinelGuide) and self._watching is None:
            self._watching = asyncio.create_task(self._guide.watch(self._clock, self._move))
        old = self._stay
        if old is not None and old.server == server and not old.is_over:
            return old
        new = self._stay = self._stay_at(server)
        if isinstance(self._guide, ClusterGuide):
            self._retire_wires()
        elif old is not None:
            await self._leave(old)
        return new

    def _stay_at(self, server: Server) -> _Stay:
        if server not in self._stays:
            self._stays[server] = _Stay(server, self._connections.make_pool(server))
        return self._stays[server]

    async def _move(self, primary: Server) -> None:
        """Sentinels say that this server is the primary now."""
        if self._stay is not None and self._stay.server != primary:
            await self._leave(self._stay)

    async def _leave(self, stay: _Stay) -> None:
        """Whoever waits on a server that is not the primary any more, or listens there, waits in vain."""
        if not stay.is_over and stay.server is not None:
            self._stays.pop(stay.server, None)
            self._close_wires()
            await self._end(stay)

    async def _end(self, stay: _Stay) -> None:
        stay.end()
        with suppress(RedisError, OSError):  # a connection that does not close in time is gone all the same
            await stay.pool.disconnect()


def _is_from_wrong_server(error: Exception) -> bool:
    # Redis 6 wraps the READONLY of a script in an error of its own, which redis-py does not tell apart; UNBLOCKED is
    # what somebody hears who waited at a server that was demoted. MASTERDOWN is a kind of CLUSTERDOWN to redis-py.
    said = str(error)
    is_told = isinstance(error, ReadOnlyError | BusyLoadingError | ClusterDownError)
    return is_told or "READONLY" in said or said.startswith("UNBLOCKED")


def _put_off(deadline: asyncio.Timeout, period: timedelta) -> None:
    """Let it be so long from now, unless it is over just now."""
    if not deadline.expired():
        deadline.reschedule(asyncio.get_running_loop().time() + period.total_seconds())


def _is_transaction(commands: Sequence[Sequence[Part]]) -> bool:
    return commands[0][0] == "MULTI"


def _list_refused(commands: Sequence[Sequence[Part]], answers: Sequence[Any]) -> list[int]:
    """The places of what was not done: of a transaction all, or else those that were sent elsewhere."""
    if _is_transaction(commands):
        return list(range(len(commands)))
    return [place for place, answer in enumerate(answers) if isinstance(answer, AskError)]


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
