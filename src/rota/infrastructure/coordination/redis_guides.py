"""Which of several servers has our keys now, as their own watchmen say.

- **Sentinels** are asked all at once. The server that most of them name is asked what it takes itself for: one that
  says it is a replica is not used. While a client is at work it also listens to each of them, so that a failover is
  known when it is decided, and nobody waits on a server that is silent or has been demoted.
- **A cluster** is asked through any of its nodes for all of them. All keys of a client share one hash tag, hence one
  slot; which one that is, the first node that refuses a key tells (`MOVED`), and from then on its owner is looked up.

An answer is kept until somebody finds it wrong (`forget`). These questions have connections of their own, which are
closed with the answer, and deadlines of a third of a call's, so that a call can ask, connect and still be answered.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

import structlog
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import MovedError, NoPermissionError, RedisError

from rota.application.ports.system import Clock
from rota.infrastructure.coordination.redis_address import Server
from rota.infrastructure.coordination.redis_refusals import NoServerError, tell_no_node, tell_no_sentinel, tell_refusal

SWITCHED = "+switch-master"
PLACES = 4  # in such a message: the hosts and ports of before and now
LISTEN_AGAIN_AFTER = timedelta(seconds=1)
PING_AFTER = timedelta(seconds=5)  # of silence
MOST_ASKED = 8  # nodes at once
MOST_KNOWN = 64  # nodes

Connect = Callable[[Server], AbstractConnection]
Moved = Callable[[Server], Awaitable[None]]

log = structlog.get_logger(__name__)


class Problem(NamedTuple):
    """Why a server cannot be used, and what to do where it will refuse us for ever."""

    text: str
    fix: str = ""


class SentinelGuide:
    """Where Sentinels say that the primary is."""

    def __init__(
        self, sentinels: Sequence[Server], service: str, *, ask: Connect, connect: Connect, within: timedelta
    ) -> None:
        self._sentinels = sentinels
        self._service = service
        self._to_sentinel = ask
        self._to_node = connect
        self._within = within / 3
        self._primary: Server | None = None
        self._looking = asyncio.Lock()

    async def find(self) -> Server:
        """The primary. Raises what redis-py raises when there is none."""
        if self._primary is None:
            async with self._looking:
                if self._primary is None:
                    self._primary = await self._look()
        return self._primary

    def forget(self) -> None:
        """The server that was found is not the one, or does not answer."""
        self._primary = None

    async def watch(self, clock: Clock, on_move: Moved) -> None:
        """Listen to every Sentinel until cancelled; `on_move` when the primary has become another one."""
        async with asyncio.TaskGroup() as group:
            for sentinel in self._sentinels:
                group.create_task(self._listen(sentinel, clock, on_move=on_move))

    async def _look(self) -> Server:
        votes, problems = await self._ask_sentinels()
        for server, _ in votes.most_common():
            try:
                if await self._is_primary(server):
                    return server
                problems.append(Problem(f"{server}: is a replica"))
            except (RedisError, OSError) as exc:
                problems.append(_tell(server, tell_refusal(exc)))
        raise _no_server(f"no primary of {self._service!r}", problems)

    async def _ask_sentinels(self) -> tuple[Counter[Server], list[Problem]]:
        """How many name which server, until most of all agree; and what was wrong with the others."""
        votes, problems = Counter[Server](), list[Problem]()
        asking = [asyncio.create_task(self._ask(sentinel)) for sentinel in self._sentinels]
        try:
            for answering in asyncio.as_completed(asking):
                said = await answering
                if isinstance(said, Problem):
                    problems.append(said)
                    continue
                votes[said] += 1
                if votes[said] > len(asking) // 2:
                    break
        finally:
            await _cancel(asking)
        return votes, problems

    async def _ask(self, sentinel: Server) -> Server | Problem:
        """Whom it names, or what was wrong."""
        question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
        try:
            (said,) = await ask_once(self._to_sentinel(sentinel), [question], within=self._within)
        except (RedisError, OSError) as exc:
            return _tell(sentinel, tell_no_sentinel(exc))
        return Problem(f"{sentinel}: watches no such service") if said is None else to_server(*said)

    async def _is_primary(self, server: Server) -> bool:
        try:
            ((role, *_),) = await ask_once(self._to_node(server), [("ROLE",)], within=self._within)
        except NoPermissionError:
            return True  # a replica refuses the first write all the same
        return bool(role == b"master")

    async def _listen(self, sentinel: Server, clock: Clock, *, on_move: Moved) -> None:
        while True:
            with suppress(RedisError, OSError):  # lookups tell what is wrong with it
                await self._hear(self._to_sentinel(sentinel), on_move)
            await clock.sleep(LISTEN_AGAIN_AFTER)

    async def _hear(self, connection: AbstractConnection, on_move: Moved) -> None:
        try:
            async with asyncio.timeout(self._within.total_seconds()):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("SUBSCRIBE", SWITCHED)
            is_asked = False  # after a silence we ask for a sign of life
            while True:
                try:
                    async with asyncio.timeout(PING_AFTER.total_seconds()):
                        kind, *rest = await connection.read_response(disconnect_on_error=False)
                except TimeoutError:
                    if is_asked:
                        raise
                    is_asked = True
                    await connection.send_command("PING")
                    continue
                is_asked = False
                if kind == b"message" and (primary := self._find_news(rest[-1])) is not None:
                    await on_move(primary)
        finally:
            await connection.disconnect(nowait=True)

    def _find_news(self, message: bytes) -> Server | None:
        """The primary by `service old-host old-port new-host new-port`, unless we know it."""
        service, *places = message.decode(errors="replace").split(" ")
        if service != self._service or len(places) != PLACES or not places[-1].isdigit():
            return None
        primary = Server(places[-2], int(places[-1]))
        if primary == self._primary:
            return None
        log.warning("redis.switched", service=service, primary=str(primary))
        self._primary = primary
        return primary


class ClusterGuide:
    """The node of a cluster that has the slot of our keys."""

    def __init__(self, seeds: Sequence[Server], *, connect: Connect, within: timedelta) -> None:
        self._seeds = tuple(seeds)
        self._known = self._seeds
        self._connect = connect
        self._within = within / 3
        self._slot: int | None = None  # unknown until somebody says that another node has it
        self._owner: Server | None = None
        self._looking = asyncio.Lock()

    async def find(self) -> Server:
        """The owner of the slot; as long as that is not known, a node that will say who it is."""
        if self._owner is None:
            async with self._looking:
                if self._owner is None:
                    self._owner = await self._look()
        return self._owner

    def forget(self) -> None:
        """The node that was found does not answer, or says that the cluster is down."""
        self._owner = None

    def follow(self, told: MovedError, *, asked: Server) -> Server:
        """Another node has the slot: the answer says which."""
        self._slot = told.slot_id
        self._owner = locate(told.host, told.port, asked=asked)
        return self._owner

    async def _look(self) -> Server:
        problems: list[Problem] = []
        asking = [asyncio.create_task(self._ask(node)) for node in self._known[:MOST_ASKED]]
        try:
            for answering in asyncio.as_completed(asking):
                said = await answering
                if not isinstance(said, Problem):
                    return said
                problems.append(said)
        finally:
            await _cancel(asking)
            self._known = (*self._known[MOST_ASKED:], *self._known[:MOST_ASKED])  # others are asked the next time
        raise _no_server("no node of the cluster can be used", problems)

    async def _ask(self, node: Server) -> Server | Problem:
        """The owner of our slot by the word of one node, or what was wrong."""
        try:
            state, ranges = await ask_once(
                self._connect(node), [("CLUSTER", "INFO"), ("CLUSTER", "SLOTS")], within=self._within
            )
        except (RedisError, OSError) as exc:
            return _tell(node, tell_no_node(exc))
        if b"cluster_state:ok" not in state:  # it may be cut off from the others, and know old things
            return Problem(f"{node}: says that the cluster is down")
        owners = {(first, last): [to_server(*one[:2], asked=node) for one in nodes] for first, last, *nodes in ranges}
        listed = (server for servers in owners.values() for server in servers)
        self._known = _unique((*self._seeds, *listed))[:MOST_KNOWN]
        if self._slot is None:
            return node
        slot = self._slot
        holding = [servers[0] for (first, last), servers in owners.items() if first <= slot <= last]
        return holding[0] if holding else Problem(f"{node}: nobody has the slot {slot}")


async def ask_once(
    connection: AbstractConnection, commands: Sequence[Sequence[str]], *, within: timedelta
) -> list[Any]:
    """Connect, ask, hang up. Raises the first refusal."""
    try:
        async with asyncio.timeout(within.total_seconds()):
            await connection.connect()  # type: ignore[no-untyped-call]
            answers = []
            for command in commands:
                await connection.send_command(*command)
                answers.append(await connection.read_response())
            return answers
    finally:
        await connection.disconnect(nowait=True)


def to_server(host: bytes | None, port: bytes | int, *, asked: Server | None = None) -> Server:
    """An address as a server tells it."""
    name = "" if host is None else host.decode(errors="replace")
    return locate(name, int(port), asked=asked or Server(name, int(port)))


def locate(host: str, port: int, *, asked: Server) -> Server:
    """A node that does not know its own name is where the one is that told of it."""
    return Server(asked.host if host in ("", "?") else host, port)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _unique(servers: Iterable[Server]) -> tuple[Server, ...]:
    return tuple(dict.fromkeys(servers))


def _tell(server: Server, refusal: tuple[str, str]) -> Problem:
    problem, fix = refusal
    return Problem(f"{server}: {problem}", fix)


def _no_server(what: str, problems: Sequence[Problem]) -> NoServerError:
    fix = next((problem.fix for problem in problems if problem.fix), "")
    return NoServerError(f"{what}: {'; '.join(problem.text for problem in problems)}", fix=fix)
