"""Attempts finished by callback, on a cluster of real processes: workers and leaders come and go, the attempt stays."""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2
import pytest

import rota
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.retry import RetryPolicy
from rota.domain.task import Task
from tests.e2e.test_cluster import APP, a_client, a_database, on_redis
from tests.e2e.test_grpc_service import ROOT, running
from tests.support.builders import a_config
from tests.support.cluster import Cluster, a_cluster, eventually
from tests.support.patience import PATIENCE_S
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.process import free_port
from tests.support.servers.redis import RedisServer

SECRET = "whsec_" + "A" * 43 + "="
NO_RETRY = RetryPolicy(max_retries=0)
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def cluster(redis_server: RedisServer, mariadb_server: MariaDbServer, tmp_path: Path) -> Iterator[Cluster]:
    """An API on Redis and MariaDB, whose leaders and workers are soon known to be dead."""
    port = free_port()
    settings = on_redis(redis_server, a_database(mariadb_server)) | {
        "api": {"public_url": f"http://127.0.0.1:{port}"},
        "scheduler": {"leader_ttl": "2s", "renew_interval": "500ms"},
        "worker": {"heartbeat_interval": "500ms", "lease": "2s", "stop_grace": "500ms"},
        "http": {"allow": ["127.0.0.1"], "secrets": {"default": {"keys": [SECRET], "hosts": ["127.0.0.1"]}}},
        "grpc": {"allow": ["127.0.0.1"]},
    }
    with a_cluster(tmp_path, settings, app=APP) as running:
        running.start("api", "api", "--set", f"api.port={port}")
        yield running


def links(cluster: Cluster) -> dict[str, str]:
    """The callback of each task that was handed on, by the ledger that the tasks keep themselves."""
    if not cluster.ledger.exists():
        return {}
    notes = map(json.loads, cluster.ledger.read_text("utf-8").splitlines())
    return {note["task"]: note["what"] for note in notes}


async def until_deferred(client: rota.Rota, handle: rota.Handle) -> Task:
    tasks = client._node.store.tasks

    async def look() -> Task | None:
        task = await tasks.find(TaskId(int(handle.id)), DEFAULT_TENANT)
        return task if task is not None and task.state.is_deferred else None

    return await eventually(look, f"task {handle.id} to wait for a callback")


@contextmanager
def print_shops(folder: Path) -> Iterator[dict[str, dict[str, str]]]:
    """The services of the examples, as processes of their own; what their task configs say."""
    http, grpc = free_port(), free_port()
    python, shops = str(Path(sys.executable)), ROOT / "examples"
    uvicorn = [python, "-m", "uvicorn", "print_shop:app", "--app-dir", str(shops / "http_service"), f"--port={http}"]
    with (
        running(uvicorn, folder, until="Uvicorn running", ROTA_SECRET=SECRET),
        running([python, str(shops / "grpc_service" / "print_shop.py"), f"127.0.0.1:{grpc}"], folder, until="at"),
    ):
        yield {"http": {"url": f"http://127.0.0.1:{http}/tasks"}, "grpc": {"address": f"127.0.0.1:{grpc}"}}


@asynccontextmanager
async def a_service() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=PATIENCE_S) as service:
        yield service


async def test_a_deferred_attempt_outlives_its_worker_and_the_leader_and_is_completed(cluster: Cluster) -> None:
    first, second = cluster.start_all("scheduler", "scheduler-1", "scheduler-2")
    worker = cluster.start("worker", "short-lived")
    async with a_client(cluster) as client, a_service() as service:
        handles = [await client.submit(name, {}) for name in ("outside", "outside_in_a_child")]
        for handle in handles:
            await until_deferred(client, handle)
        worker.kill()
        leader = cluster.leader()
        leader.kill()
        heir = second if leader is first else first
        heir.wait_for("worker.lost")  # and all that it held is taken back
        for handle in handles:
            assert (await until_deferred(client, handle)).state.attempt == 1
            answer = await service.post(f"{links(cluster)[handle.id]}:complete", json={"data": {"sent": True}})
            assert answer.status_code == 200, answer.text
            task = await handle.wait("10s")
            assert (task.status, task.attempt, task.retry_count) == ("SUCCESS", 1, 0)
            assert task.result is not None
            assert task.result.data == {"sent": True}
    assert len(links(cluster)) == len(cluster.ledger.read_text("utf-8").splitlines()) == 2


async def test_what_is_not_called_back_ends_and_a_late_second_or_forged_word_is_refused(cluster: Cluster) -> None:
    cluster.start_all("server", "pod")
    async with a_client(cluster) as client, a_service() as service:
        silent = await client.submit("outside", {}, timeout="3s")
        lively = await client.submit("outside", {})
        failed = await client.submit("outside", {})
        for handle in (lively, failed):
            await until_deferred(client, handle)
        known = links(cluster)
        forged = known[failed.id].replace(f"/{failed.id}/", f"/{lively.id}/")
        assert (await service.post(f"{forged}:complete")).status_code == 401
        assert (await service.post(f"{known[lively.id]}:heartbeat", json={"lease_seconds": 2})).status_code == 200
        assert (await service.post(f"{known[failed.id]}:fail", json={"code": "broken"})).json()["status"] == "FAILED"
        second = await service.post(f"{known[failed.id]}:complete")
        assert (second.status_code, second.json()["code"]) == (409, "stale_attempt")
        messages = {}
        for handle in (silent, lively):
            task = await handle.wait("30s")
            assert (task.status, task.attempt) == ("TIMEOUT", 1)
            messages[handle.id] = task.error.message if task.error is not None else ""
        assert messages == {
            silent.id: "no callback came before the attempt's timeout",
            lively.id: "the heartbeats of whoever works on the attempt stopped",
        }
        late = await service.post(f"{links(cluster)[silent.id]}:complete")
        assert (late.status_code, late.json()["code"]) == (409, "stale_attempt")


async def test_services_over_http_and_grpc_take_a_task_and_finish_it_later_or_never(cluster: Cluster) -> None:
    cluster.start_all("server", "pod")
    with print_shops(cluster.folder) as shops:
        async with a_client(cluster) as client:
            for kind, executor in shops.items():
                config = a_config(kind, executor_type=kind, executor_config=json.dumps(executor), retry=NO_RETRY)
                await client._node.store.configs.put(config)
            books = [{"title": "Emma", "seconds": 0}, {"title": "Persuasion", "seconds": 1}]  # the first may be faster
            printed = [(await client.submit(kind, book), book["title"]) for kind in shops for book in books]
            for handle, title in printed:
                task = await handle.wait("30s")
                assert (task.status, task.attempt, task.error) == ("SUCCESS", 1, None)
                assert task.result is not None
                assert task.result.data == {"printed": title}
            lost = [await client.submit(kind, {"title": "Sanditon"}, timeout="4s") for kind in shops]
            for handle in lost:
                await until_deferred(client, handle)
            for handle in lost:
                task = await handle.wait("30s")
                assert (task.status, task.attempt) == ("TIMEOUT", 1)
                assert task.error is not None
                assert task.error.message == "no callback came before the attempt's timeout"
