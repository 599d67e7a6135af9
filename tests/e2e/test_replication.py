"""The primary of the database goes, its replica takes its place, and the cluster on it goes on.

Clients reach the database through one port, which is led to the replica as a name in the DNS would be: connections that
are open stay where they are.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import rota
from rota.domain.errors import UnavailableError
from rota.domain.task import SUCCESS
from rota.infrastructure.database.migrate import upgrade
from tests.support import cluster_app
from tests.support.cluster import Cluster, a_cluster, at_most, eventually, wait_until
from tests.support.proxy import FaultyProxy
from tests.support.require import require_server
from tests.support.servers.replication import Replicated, ReplicatedMariaDb, ReplicatedPostgres

APP = Path(cluster_app.__file__)
Note = Callable[[str, object], None]
TABLE = "table: From the promotion of a replica to work done on it (at most 10 s)"
RESUMED_WITHIN_S = 10
BEFORE = 200  # tasks that have been acknowledged when the fault comes
KINDS: dict[str, Callable[[], Replicated]] = {"mariadb": ReplicatedMariaDb, "postgres": ReplicatedPostgres}
pytestmark = pytest.mark.timeout(240)


@dataclass(slots=True)
class Ground:
    """A cluster whose database has a replica."""

    servers: Replicated
    cluster: Cluster
    door: FaultyProxy
    client: rota.Rota
    accepted: list[str] = field(default_factory=list)

    async def keep_submitting(self, until: asyncio.Event) -> None:
        """Ask for tasks, one when the one before has run; each that was acknowledged is noted."""
        while not until.is_set():
            with suppress(UnavailableError):
                self.accepted.append((await self.client.submit("noop", {})).id)
                await asyncio.to_thread(wait_until, lambda: self.cluster.runs()[self.accepted[-1]], "it to run")

    async def runs_something_new(self) -> None:
        """Wait until a task that was asked for after now has run."""
        wanted = len(self.accepted)

        async def look() -> str | None:
            return self.accepted[wanted] if len(self.accepted) > wanted else None

        task_id = await eventually(look, "a task to be acknowledged")
        await asyncio.to_thread(wait_until, lambda: self.cluster.runs()[task_id], "it to run")


@pytest.fixture
def servers(kind: str) -> Iterator[Replicated]:
    require_server(kind)
    with KINDS[kind]() as pair:
        asyncio.run(upgrade(pair.url(pair.primary_port)))
        yield pair


@asynccontextmanager
async def a_ground(servers: Replicated, folder: Path, *, pods: int = 2) -> AsyncIterator[Ground]:
    async with FaultyProxy("127.0.0.1", servers.primary_port) as door:
        settings = {
            "store": {"url": servers.url(door.port)},
            "coordinator": {"url": "sql://"},
            "worker": {"capacity": 50},
        }
        with a_cluster(folder, settings, app=APP) as cluster:
            for pod in [cluster.launch("server", f"pod-{number}") for number in range(1, pods + 1)]:
                await asyncio.to_thread(pod.wait_for, "node.ready")
            async with rota.Rota(settings, roles=()) as client:
                ground = Ground(servers, cluster, door, client)
                yield ground
            await asyncio.to_thread(cluster.stop)


async def everything_ran_once(ground: Ground) -> None:
    async def look() -> bool | None:
        counts = await ground.client.count()
        return True if set(counts) == {SUCCESS} else None

    await eventually(look, "every task to succeed", patience_s=60)
    for task_id in ground.accepted:
        assert (await ground.client.get(task_id)).status is SUCCESS, "it was acknowledged"
    assert set(map(str, ground.accepted)) <= set(ground.cluster.runs())
    assert set(Counter(ground.cluster.runs().values())) == {1}, "a task ran twice"


@asynccontextmanager
async def busy(ground: Ground) -> AsyncIterator[None]:
    """Many tasks are there and more are asked for, until the end of the block."""
    ground.accepted += [one.id for one in await ground.client.submit_many("noop", [{}] * BEFORE)]
    over = asyncio.Event()
    submitting = asyncio.create_task(ground.keep_submitting(over))
    try:
        await ground.runs_something_new()
        yield
    finally:
        over.set()
        await submitting


@pytest.mark.parametrize(
    ("kind", "pods"),
    [
        ("mariadb", 1),
        pytest.param("mariadb", 2, marks=pytest.mark.slow),
        pytest.param("postgres", 2, marks=pytest.mark.slow),
    ],
)
async def test_work_goes_on_when_the_replica_takes_over(
    servers: Replicated, tmp_path: Path, record_property: Note, kind: str, pods: int
) -> None:
    """Planned: the primary is demoted, and the port leads to the replica already when that is promoted."""
    async with a_ground(servers, tmp_path, pods=pods) as ground:
        async with busy(ground):
            await asyncio.to_thread(servers.demote)
            ground.door.lead_to(servers.replica_port)
            await asyncio.to_thread(servers.promote)
            waited = await time_until_work(ground)
            record_property(TABLE, f"{kind:<9} demoted, {pods} pods   {waited:4.1f} s")
        await everything_ran_once(ground)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_acknowledged_survives_the_crash_of_the_primary(
    servers: Replicated, tmp_path: Path, record_property: Note, kind: str
) -> None:
    """A commit waited for the replica, so nothing that a client or a worker was told is missing there."""
    async with a_ground(servers, tmp_path) as ground:
        async with busy(ground):
            await asyncio.to_thread(servers.crash)
            await asyncio.to_thread(servers.promote)
            ground.door.lead_to(servers.replica_port)
            waited = await time_until_work(ground)
            record_property(TABLE, f"{kind:<9} killed, 2 pods    {waited:4.1f} s")
        await everything_ran_once(ground)


async def time_until_work(ground: Ground) -> float:
    """How long after its promotion the replica has new work done; it must not be long."""
    clock = asyncio.get_running_loop().time
    promoted_at = clock()
    await ground.runs_something_new()
    waited = clock() - promoted_at
    assert waited < at_most(RESUMED_WITHIN_S).total_seconds()
    return waited
