"""A control loop that is blocked in earnest: by a thread-blocking call, on real servers, beside a leader elsewhere."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.config import wiring
from rota.config.embedded import plan_for
from rota.config.schema import upgrade_schema
from rota.domain.events import EventKind, Told
from rota.domain.task import PROCESSING, SUCCESS
from rota.infrastructure.aside import OwnLoop
from rota.interfaces.cli.errors import FAILURE
from rota.sdk.tasks import TaskFunction, TaskOptions, TaskRegistry, define
from tests.support.cluster import a_cluster
from tests.support.names import fresh_name
from tests.support.patience import PATIENCE_S
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.redis import RedisServer

HELD_UP_S = 4.0  # more than the lease and the leader's next look together
PACE = {"lease": "1500ms", "heartbeat_interval": "200ms", "capacity": 1, "stop_grace": "100ms"}

BLOCKING_APP = """
import asyncio, threading
from rota.application.work import watchdog

watchdog.STUCK_AFTER = 1.0

def block_when_watched(loop):
    if any(thread.name == "rota-deputy" for thread in threading.enumerate()):
        threading.Event().wait()
    loop.call_later(0.05, block_when_watched, loop)

block_when_watched(asyncio.get_running_loop())  # the app is loaded on the control loop
"""


class Leader:
    """A scheduler in another thread, so that it goes on whatever happens to the loop of the test."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.has_buried = threading.Event()  # a worker
        self.is_ready = threading.Event()
        self._settings = settings

    async def lead(self) -> None:
        async with rota.Rota(self._settings, roles=["scheduler"]) as app, self._listen(app) as events:
            self.is_ready.set()
            async for _, event in events:
                if event is not None and event.kind is EventKind.WORKER_OFFLINE:
                    self.has_buried.set()

    def _listen(self, app: rota.Rota) -> AbstractAsyncContextManager[AsyncIterator[Told]]:
        return app._node.coordinator.signals.subscribe()


@contextmanager
def a_leader(settings: dict[str, Any]) -> Iterator[Leader]:
    leader, thread = Leader(settings), OwnLoop("leader")
    thread.start(leader.lead)
    try:
        assert leader.is_ready.wait(PATIENCE_S)
        yield leader
    finally:
        thread.close()


@pytest.fixture
async def settings(redis_server: RedisServer, mariadb_server: MariaDbServer) -> dict[str, Any]:
    name = fresh_name("deputy")
    mariadb_server.create_database(name)
    made = {
        "store": {"url": mariadb_server.url(name)},
        "coordinator": {"url": redis_server.url(), "prefix": name},
        "metrics": {"collector": "none"},
        "worker": PACE,
    }
    await upgrade_schema(plan_for(made, None, app=None, tasks=TaskRegistry()).settings)
    return made


class Patient:
    """A task that ends when it is let go."""

    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.may_end = threading.Event()
        self.registry = TaskRegistry()
        self.registry.add(TaskFunction(self.wait, define("wait", TaskOptions(timeout="10m", retries=0))))

    async def wait(self, ctx: rota.Context) -> None:
        self.attempts.append(ctx.attempt)
        await asyncio.to_thread(self.may_end.wait)


async def until_running(handle: rota.Handle) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await handle.get()).status is not PROCESSING:
            await asyncio.to_thread(threading.Event().wait, 0.02)


async def test_a_worker_whose_loop_is_held_up_for_longer_than_its_lease_keeps_its_task(
    settings: dict[str, Any],
) -> None:
    patient = Patient()
    with a_leader(settings) as leader:
        async with rota.Rota(settings, roles=["worker"], tasks=patient.registry) as app:
            handle = await app.submit("wait")
            await until_running(handle)
            was_buried = leader.has_buried.wait(HELD_UP_S)  # which blocks the loop
            patient.may_end.set()
            task = await handle.wait("60s")
        assert not was_buried
        assert (task.status, task.attempt, patient.attempts) == (SUCCESS, 1, [1])


async def test_without_a_deputy_the_same_worker_is_given_up(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "plan_deputy", lambda *_, **__: None)
    patient = Patient()
    with a_leader(settings) as leader:
        async with rota.Rota(settings, roles=["worker"], tasks=patient.registry) as app:
            handle = await app.submit("wait")
            await until_running(handle)
            was_buried = leader.has_buried.wait(PATIENCE_S)
            patient.may_end.set()
            task = await handle.wait("60s")
        assert was_buried
        assert task.attempt == 2


def test_a_process_whose_loop_is_stuck_ends_with_the_code_of_a_failure(tmp_path: Path) -> None:
    settings = {"store": {"url": f"sqlite:///{tmp_path}/rota.db"}, "coordinator": {"url": "sql://"}}
    app = tmp_path / "blocking_app.py"
    app.write_text(BLOCKING_APP, "utf-8")
    with a_cluster(tmp_path, settings, app=app) as cluster:
        worker = cluster.launch("worker", "worker", "--set", "worker.heartbeat_interval=200ms")
        assert worker.popen.wait(PATIENCE_S) == FAILURE
        stuck = worker.wait_for("worker.loop_stuck")
        assert "block_when_watched" in stuck["stack"]
