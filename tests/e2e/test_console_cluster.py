"""The console in front of a cluster of real processes on Redis and MariaDB."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

import rota
from rota.infrastructure.database.migrate import upgrade
from tests.support import cluster_app
from tests.support.cluster import Cluster, Process, a_cluster, bare_environment, wait_until
from tests.support.console import a_browser, a_visitor, require_console
from tests.support.names import fresh_name
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.redis import RedisServer

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def cluster(redis_server: RedisServer, mariadb_server: MariaDbServer, tmp_path: Path) -> Iterator[Cluster]:
    require_console()
    name = fresh_name("e2e")
    mariadb_server.create_database(name)
    asyncio.run(upgrade(mariadb_server.url(name)))
    settings = {
        "store": {"url": mariadb_server.url(name)},
        "coordinator": {"url": redis_server.url(), "prefix": fresh_name("e2e")},
    }
    with a_cluster(tmp_path, settings, app=Path(cluster_app.__file__)) as running:
        yield running


def make_token(cluster: Cluster) -> str:
    command = [sys.executable, "-m", "rota.interfaces.cli.main", "token", "create", "tests", "--role", "admin"]
    done = subprocess.run(  # noqa: S603 our own program
        [*command, "--config", "rota.yaml"],
        cwd=cluster.folder,
        env=bare_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def leader_of(client: rota.Client) -> str | None:
    return client.cluster().leader


def process_of(cluster: Cluster, node: str) -> Process:
    return next(process for process in cluster.processes if f"-{process.pid}-" in node)


def test_the_leader_is_killed_and_a_worker_drained_under_the_eyes_of_a_visitor(cluster: Cluster) -> None:
    api = cluster.start("api", "api")
    cluster.start_all("scheduler", "scheduler-1", "scheduler-2")
    cluster.start("worker", "worker-1")
    secret = make_token(cluster)
    url = api.wait_for("api.listening")["address"]
    with a_browser() as browser, a_visitor(browser, url) as visitor, rota.Client(url, secret) as client:
        visitor.log_in(secret)
        page = visitor.page
        visitor.go("/cluster")
        first = wait_until(lambda: leader_of(client), "a leader")
        nodes = page.get_by_test_id("nodes")
        expect(nodes.get_by_role("row", name=first)).to_contain_text("Leader")
        elections = page.get_by_test_id("elections")
        expect(elections.get_by_role("row", name=first)).to_contain_text("leads now")
        process_of(cluster, first).send(signal.SIGKILL)
        second = wait_until(lambda: leader_of(client) not in (None, first) and leader_of(client), "another leader")
        expect(nodes.get_by_role("row", name=second)).to_contain_text("Leader")
        expect(elections.get_by_role("row", name=second)).to_contain_text("leads now")
        expect(elections.get_by_role("row", name=first)).to_contain_text("Fell silent")

        running = client.submit("nap", {"seconds": 2})
        visitor.go(f"/tasks/{running.id}")
        expect(page.get_by_test_id("attempts")).to_contain_text("Succeeded")  # the new leader dispatches

        visitor.go("/workers")
        workers = page.get_by_test_id("workers")
        expect(workers).to_contain_text("Ready")
        page.get_by_role("button", name="Drain").click()
        page.get_by_role("dialog").get_by_role("button", name="Drain").click()
        expect(workers).to_contain_text("Draining")
        waiting = client.submit("noop")
        visitor.go(f"/tasks/{waiting.id}")
        expect(page.get_by_test_id("why")).to_be_visible()  # nobody takes it
        visitor.go("/workers")
        page.get_by_role("button", name="Resume", exact=True).click()
        expect(workers).to_contain_text("Ready")
        assert client.tasks.wait(waiting.id, "60s").status == "SUCCESS"
