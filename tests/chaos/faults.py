"""The faults: how each is brought about, how one sees that it is in effect, and by when all must be well again."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.chaos import skewed
from tests.chaos.ground import Ground
from tests.chaos.servers import STORE
from tests.support.cluster import Process, wait_until
from tests.support.proxy import FaultyProxy

COMMIT_WITHIN_S = 10.0
BLOCKED_S = 14.0  # longer than a worker's lease: it must not look dead
DEADLY = 3  # workers that a task may take with it

Bring = Callable[[Ground], AbstractAsyncContextManager[None]]


class NotInEffectError(AssertionError):
    """A fault did nothing: whatever was seen proves nothing."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    bring: Bring  # entered: in effect; left: healed
    bound_s: float  # until nothing waits for it any more …
    from_end: bool = False  # … from when it began, or from when it was over
    held_s: float = 0.0
    rest_s: float = 1.0  # afterwards: so long its traces are looked for, and the next one is not brought
    loses: bool = False  # what runs on a worker is lost with it
    needs: frozenset[str] = frozenset()  # of the terrain

    @property
    def since(self) -> str:
        """What the bound is counted from."""
        return "end" if self.from_end else "begin"

    @property
    def untried(self) -> str:
        """Its row in the table where there was no time for it."""
        return f"| {self.name} | ≤ {self.bound_s:g} s | {self.since} | | not come to |"


def confirm(is_true: bool, what: str) -> None:
    if not is_true:
        raise NotInEffectError(what)


@asynccontextmanager
async def kill_leader(ground: Ground) -> AsyncIterator[None]:
    ground.cluster.leader().kill()
    yield
    await ground.add("scheduler")


@asynccontextmanager
async def stop_leader(ground: Ground) -> AsyncIterator[None]:
    await _stop(ground.cluster.leader())
    yield
    await ground.add("scheduler")


@asynccontextmanager
async def freeze_leader(ground: Ground) -> AsyncIterator[None]:
    async with _frozen(ground.cluster.leader()):
        yield


@asynccontextmanager
async def kill_worker(ground: Ground) -> AsyncIterator[None]:
    ground.live("worker")[0].kill()
    yield
    await ground.add("worker")


@asynccontextmanager
async def stop_worker(ground: Ground) -> AsyncIterator[None]:
    await _stop(ground.live("worker")[0])
    yield
    await ground.add("worker")


@asynccontextmanager
async def freeze_worker(ground: Ground) -> AsyncIterator[None]:
    async with _frozen(ground.live("worker")[0]):
        yield


@asynccontextmanager
async def restart_one_by_one(ground: Ground) -> AsyncIterator[None]:
    """As an orchestrator does it: the new one first, then the old one is told to end."""
    for old in [*ground.live("worker"), *ground.live("scheduler")]:
        await ground.add(old.name.partition("-")[0])
        await _stop(old)
    yield


@asynccontextmanager
async def wrong_clocks(ground: Ground) -> AsyncIterator[None]:
    """A leader an hour ahead, and a worker beside the others that is an hour behind."""
    old = ground.live("scheduler")
    wrong = [await ground.add(role, program=Path(skewed.__file__)) for role in ("scheduler", "worker")]
    for one in old:
        await _stop(one)
    await asyncio.to_thread(wrong[0].wait_for, "leader.won")  # the only scheduler that is left
    try:
        yield
    finally:
        await asyncio.gather(*(ground.add("scheduler") for _ in old))
        for one in wrong:
            await _stop(one)


@asynccontextmanager
async def block_task_loops(ground: Ground) -> AsyncIterator[None]:
    """Coroutines that block: all others on that worker wait, and the worker must not look dead."""
    workers = ground.live("worker")
    client = ground.get_client()
    asked = [await client.submit("blocking", seconds=BLOCKED_S)]
    blocked = await asyncio.to_thread(
        wait_until, lambda: [one for one in workers if one.said("task_loop.blocked")], "a blocked task loop"
    )
    yield
    confirm(all(one.popen.poll() is None for one in blocked), "a blocked worker ended")
    tasks = await client.load_ended(asked)
    confirm(all(task.state.attempt == 1 for task in tasks), "a blocked worker was taken for dead")


@asynccontextmanager
async def poison(ground: Ground) -> AsyncIterator[None]:
    """A task that takes its worker down. Three of them are enough."""
    client = ground.get_client()
    asked = [await client.submit("poison")]
    for _ in range(DEADLY):
        await asyncio.to_thread(wait_until, partial(_is_one_dead, ground.live("worker")), "a worker to die")
        await ground.add("worker")
    yield
    [task] = await client.load_ended(asked)
    confirm(task.error is not None and task.error.code == "poison", f"it was not quarantined: {task}")


@asynccontextmanager
async def _frozen(process: Process) -> AsyncIterator[None]:
    process.send(signal.SIGSTOP)
    await asyncio.to_thread(wait_until, lambda: _state(process) == "T", f"{process.name} to stand still")
    try:
        yield
    finally:
        process.send(signal.SIGCONT)


async def _stop(process: Process) -> None:
    confirm(await asyncio.to_thread(process.stop) == 0, f"{process.name} did not end well")


def _is_one_dead(processes: Sequence[Process]) -> bool:
    return any(process.popen.poll() is not None for process in processes)


def _state(process: Process) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def through(side: str, hurt: Callable[[FaultyProxy], None], *, only_leader: bool = False) -> Bring:
    """A fault of the network before one of the servers, for everybody or for the leader alone."""

    @asynccontextmanager
    async def bring(ground: Ground) -> AsyncIterator[None]:
        proxies = _proxies(ground, side, only_leader=only_leader)
        confirm(any(proxy.connections for proxy in proxies), f"nobody is connected to the {side}")
        for proxy in proxies:
            hurt(proxy)
        try:
            yield
        finally:
            for proxy in proxies:
                proxy.heal()

    return bring


def lose_commit(*, only_leader: bool = False) -> Bring:
    """The store commits, and the answer never comes."""

    @asynccontextmanager
    async def bring(ground: Ground) -> AsyncIterator[None]:
        proxy = _proxies(ground, STORE, only_leader=only_leader)[0]
        swallowed = proxy.drop_reply_after(b"COMMIT")
        try:
            await asyncio.wait_for(swallowed.wait(), COMMIT_WITHIN_S)
        except TimeoutError as exc:
            raise NotInEffectError("nothing was committed") from exc
        finally:
            proxy.heal()
        yield

    return bring


def _proxies(ground: Ground, side: str, *, only_leader: bool) -> list[FaultyProxy]:
    """The first of them is that of all processes but the schedulers, or the leader's own."""
    lines = [ground.own[ground.cluster.leader().name]] if only_leader else ground.all_lines
    return [proxy for line in lines for proxy in line.to(side)]
