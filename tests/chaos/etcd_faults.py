"""Faults of an etcd cluster: its leader dead or frozen, a member frozen, out of reach, or cut off from the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.domain.errors import UnavailableError
from rota.infrastructure.etcd.client import EtcdClient
from tests.chaos.faults import Bring, confirm
from tests.chaos.ground import Ground
from tests.chaos.measure import Measured
from tests.chaos.servers import STORE
from tests.support.cluster import eventually
from tests.support.servers.etcd import EtcdServer

ELECTED_WITHIN_S = 10.0


@asynccontextmanager
async def kill_leader(ground: Ground) -> AsyncIterator[None]:
    leader = await _find_leader(ground)
    async with _same_term(ground, "etcd: leader kill -9"):
        leader.kill()
        yield
        await _see_another(ground, leader)
        await ground.restart(leader)


@asynccontextmanager
async def freeze_leader(ground: Ground) -> AsyncIterator[None]:
    """The others elect another one; whoever is connected to it waits for an answer in vain."""
    leader = await _find_leader(ground)
    leader.pause()
    try:
        yield
        await _see_another(ground, leader)
    finally:
        leader.resume()


@asynccontextmanager
async def freeze_member(ground: Ground) -> AsyncIterator[None]:
    """One that follows: the cluster goes on, and so must whoever asked just this one."""
    leader = await _find_leader(ground)
    frozen = next(server for server in ground.etcd.servers if server is not leader)
    frozen.pause()
    try:
        yield
        confirm(await _find_leader(ground) is leader, "the cluster elected another leader: this was another fault")
    finally:
        frozen.resume()


def lose_line(place: int) -> Bring:
    """Nobody reaches one member any more; the members reach each other."""

    @asynccontextmanager
    async def bring(ground: Ground) -> AsyncIterator[None]:
        proxies = [lines.to(STORE)[place] for lines in ground.all_lines]
        confirm(any(proxy.connections for proxy in proxies), "nobody is connected to it")
        for proxy in proxies:
            proxy.blackhole()
        try:
            yield
        finally:
            for proxy in proxies:
                proxy.heal()

    return bring


@asynccontextmanager
async def lose_quorum(ground: Ground) -> AsyncIterator[None]:
    """Two of three are gone: nothing can be written."""
    gone = ground.etcd.servers[1:]
    refused = ground.get_client().refused
    for server in gone:
        server.kill()
    yield
    confirm(ground.get_client().refused > refused, "nothing was refused")
    for server in gone:
        server.launch()
    for server in gone:
        await asyncio.to_thread(server.wait_until_ready)


@asynccontextmanager
async def _same_term(ground: Ground, name: str) -> AsyncIterator[None]:
    """How often Rota's leader changed meanwhile is noted."""
    before = _count_terms(ground)
    yield
    changes = float(_count_terms(ground) - before)
    ground.noted.append(Measured(f"{name}: changes of Rota's leader", changes, 0.0, unit="changes"))


def _count_terms(ground: Ground) -> int:
    return sum(line.get("event") == "leader.won" for process in ground.cluster.processes for line in process.events())


async def _see_another(ground: Ground, old: EtcdServer) -> None:
    async def look() -> bool | None:
        return True if await _find_leader(ground, but=old) is not old else None

    await eventually(look, "another leader of etcd", patience_s=ELECTED_WITHIN_S)


async def _find_leader(ground: Ground, *, but: EtcdServer | None = None) -> EtcdServer:
    """By their own word; one that was the leader before, and is dead or frozen, is not asked."""
    for server in ground.etcd.servers:
        if server is but or not server.is_running:
            continue
        client = EtcdClient(server.url(), unavailable=UnavailableError)
        try:
            status = await client.status()
        except UnavailableError:
            continue
        finally:
            await client.close()
        if status.leader == status.header.member_id:
            return server
    raise UnavailableError("the etcd has no leader")
