"""Health and figures of processes without the API: real ones, asked as Kubernetes and Prometheus do."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import rota
from rota.interfaces.cli.main import run
from tests.support import cluster_app
from tests.support.cluster import Cluster, Process, a_cluster, wait_until

APP = Path(cluster_app.__file__)
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Empty, on SQLite; each of its processes has a port for whoever looks after it."""
    settings = {
        "store": {"url": f"sqlite:///{tmp_path}/rota.db"},
        "coordinator": {"url": "sql://"},
        "monitor": {"port": 0},
    }
    with a_cluster(tmp_path, settings, app=APP) as running:
        yield running


def address_of(process: Process) -> str:
    return str(process.wait_for("monitor.listening")["address"])


def is_ready(address: str) -> bool:
    return httpx2.get(f"{address}/readyz").status_code == 200


def figure(address: str, name: str) -> str | None:
    lines = httpx2.get(f"{address}/metrics").text.splitlines()
    return next((line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")), None)


@pytest.mark.parametrize(
    ("role", "name", "value"),
    [("worker", "rota_worker_capacity", "10.0"), ("scheduler", "rota_scheduler_leader", "1.0")],
)
def test_a_process_without_the_api_tells_how_it_is(cluster: Cluster, role: str, *, name: str, value: str) -> None:
    address = address_of(cluster.start(role, "one"))
    assert address.startswith("http://127.0.0.1:")
    wait_until(lambda: is_ready(address), "it to be ready")
    assert httpx2.get(f"{address}/livez").json() == {"status": "alive"}
    wait_until(lambda: figure(address, name) == value, f"{name} to be {value}")
    assert run(["health", "--url", address]) == 0


def test_there_is_nothing_else_and_nothing_for_a_page_in_a_browser(cluster: Cluster) -> None:
    address = address_of(cluster.start("worker", "one"))
    answers = {path: httpx2.get(f"{address}{path}") for path in ("/", "/api/v1/tasks", "/docs", "/login", "/livez")}
    statuses = {path: answer.status_code for path, answer in answers.items()}
    assert statuses == {"/": 404, "/api/v1/tasks": 404, "/docs": 404, "/login": 404, "/livez": 200}
    assert httpx2.post(f"{address}/livez").status_code == 405
    answer = httpx2.get(f"{address}/metrics", headers={"Host": "evil.example.com"})
    assert (answer.status_code, answer.json()["code"]) == (400, "host_not_allowed")
    for answer in answers.values():
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


async def test_a_worker_that_drains_is_alive_and_tells_its_figures_but_is_not_ready(cluster: Cluster) -> None:
    cluster.start("scheduler", "scheduler")
    worker = cluster.start("worker", "one")
    address = address_of(worker)
    wait_until(lambda: is_ready(address), "it to be ready")
    async with rota.Rota({key: cluster.settings[key] for key in ("store", "coordinator")}, roles=()) as client:
        await client.submit("nap", {"seconds": 60})
        wait_until(lambda: cluster.runs("began"), "the task to begin")
        worker.send(signal.SIGTERM)
        wait_until(lambda: not is_ready(address), "it not to be ready any more")
        assert httpx2.get(f"{address}/livez").status_code == 200
        assert figure(address, "rota_worker_load") is not None
        worker.send(signal.SIGTERM)  # a second one: at once
        assert worker.popen.wait(60) == 0


def test_a_port_that_is_taken_is_told_with_what_to_try(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = [f"store.url=sqlite:///{tmp_path}/rota.db", "coordinator.url=sql://"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = [*shared, "metrics.collector=none", "log.level=error", f"monitor.port={port}"]
        assert run(["worker", *(word for flag in flags for word in ("--set", flag))]) == 2
    told = capsys.readouterr().err
    assert f"error: port {port} of 127.0.0.1 is in use" in told
    assert "--set monitor.port=" in told.splitlines()[-1]


def test_without_a_port_nobody_listens(cluster: Cluster) -> None:
    worker = cluster.start("worker", "one", "--set", "monitor.port=null")
    worker.wait_for("worker.online")
    assert worker.said("monitor.listening") is None
