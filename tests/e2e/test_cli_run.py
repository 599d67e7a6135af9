"""`rota server`, `scheduler` and `worker` as real processes: how they start, refuse to, and end."""

import asyncio
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import rota
from tests.e2e.test_cli_settings import rota as rota_command
from tests.support import cluster_app
from tests.support.cluster import Cluster, a_cluster, wait_until
from tests.support.names import fresh_name
from tests.support.servers.postgres import PostgresServer

APP = Path(cluster_app.__file__)
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Cluster]:
    """One process on a SQLite file, its queues in there too, so that a client can join."""
    settings = {"store": {"url": f"sqlite:///{tmp_path}/rota.db"}, "coordinator": {"url": "sql://"}}
    with a_cluster(tmp_path, settings, app=APP) as cluster:
        yield cluster


async def submit(cluster: Cluster, task_type: str, **payload: float) -> None:
    async with rota.Rota(cluster.settings, roles=()) as client:
        await client.submit(task_type, payload)


async def run_to_its_end(cluster: Cluster, task_type: str) -> None:
    async with rota.Rota(cluster.settings, roles=()) as client:
        await (await client.submit(task_type)).wait("30s")


@pytest.mark.parametrize("role", ["server", "api", "scheduler", "worker"])
def test_a_process_ends_in_good_order_when_it_is_told_to(alone: Cluster, role: str) -> None:
    process = alone.start(role, "pod")
    assert process.stop() == 0
    events = [line.get("event") for line in process.events()]
    assert events[-1] == "node.stopped"
    assert "text" not in events, "nothing but log lines: no traceback"


def test_ctrl_c_ends_it_in_good_order(alone: Cluster) -> None:
    process = alone.start("server", "pod")
    process.send(signal.SIGINT)
    assert process.popen.wait(20) == 0


def test_told_twice_it_does_not_wait_for_what_runs(alone: Cluster) -> None:
    process = alone.start("server", "pod")
    asyncio.run(submit(alone, "nap", seconds=100))
    wait_until(lambda: alone.runs("began"), "the task to begin")
    process.send(signal.SIGTERM)
    process.wait_for("worker.draining")
    process.send(signal.SIGTERM)
    assert process.popen.wait(10) == 0
    assert process.wait_for("worker.stopped_at_once")["running"] == 1
    assert not alone.runs("ran")


@pytest.mark.parametrize("task_type", ["swallow", "hold_a_thread"])
def test_what_of_a_task_never_ends_does_not_keep_the_process(alone: Cluster, task_type: str) -> None:
    process = alone.start("server", "pod")
    asyncio.run(run_to_its_end(alone, task_type))
    process.send(signal.SIGTERM)
    assert process.popen.wait(20) == 0
    assert process.events()[-1]["event"] == "node.stopped"


def test_a_changed_file_is_read_without_a_signal(alone: Cluster) -> None:
    process = alone.start("server", "pod")
    alone.write_settings(worker={"capacity": 3, "weight": 7}, scheduler={"batch_size": 9})
    assert set(process.wait_for("settings.changed")["settings"]) == {"worker.capacity", "scheduler.batch_size"}
    assert process.wait_for("settings.restart_needed")["settings"] == ["worker.weight"]


def test_a_broken_file_changes_nothing(alone: Cluster) -> None:
    process = alone.start("server", "pod")
    alone.write_settings(worker={"capacity": "many"})
    process.send(signal.SIGHUP)
    assert "worker.capacity" in process.wait_for("settings.rejected")["error"]
    assert process.stop() == 0


def test_the_processes_of_a_group_end_together(alone: Cluster) -> None:
    alone.start("scheduler", "scheduler")
    group = alone.launch("worker", "group", "--processes", "2")
    wait_until(lambda: [line.get("event") for line in group.events()].count("worker.online") == 2, "two workers")
    assert {line["name"] for line in group.events() if line.get("event") == "worker.online"} == {"group-1", "group-2"}
    assert group.stop() == 0
    assert [line.get("event") for line in group.events()].count("node.stopped") == 2


@pytest.mark.parametrize("app", ["absent.py", "no_such_module_anywhere"])
def test_an_app_that_is_not_there_is_told_with_what_to_try(tmp_path: Path, app: str) -> None:
    ran = rota_command(tmp_path, "worker", "--app", app, ROTA_COORDINATOR__URL="sql://")
    assert ran.returncode == 2
    assert any(line.startswith("error: there is no ") and app in line for line in ran.stderr.splitlines())
    assert ran.stderr.splitlines()[-1] == "try: rota worker --help"
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("last_line", "told_as"),
    [
        ("raise RuntimeError('no such price list')", "RuntimeError: no such price list"),
        ("@rota.task('')", "InvalidError: type: "),  # raised by Rota, caused by the file
        ("def hello(:", "SyntaxError: invalid syntax"),
        ("@rota.cron('61 * * * *')", "InvalidError: schedule.cron: minute '61'"),
        ("@rota.cron('@daily', zone='Mars/Olympus')", "InvalidError: schedule.zone"),
    ],
)
def test_an_app_that_is_broken_is_told_in_two_lines(tmp_path: Path, last_line: str, told_as: str) -> None:
    (tmp_path / "tasks.py").write_text(f"import rota\n\n{last_line}\ndef run(): pass\n", "utf-8")
    ran = rota_command(tmp_path, "worker", "--app", "tasks.py", ROTA_COORDINATOR__URL="sql://")
    told = [line for line in ran.stderr.splitlines() if not line.startswith("{")]
    assert ran.returncode == 2
    assert told[0].startswith(f"error: tasks.py cannot be loaded: {told_as}")
    assert told[0].count(", line ") == 1
    assert told[0].endswith("tasks.py, line 3)")
    assert told[1:] == ["try: python tasks.py"]


def test_a_server_whose_schema_is_not_current_is_refused(tmp_path: Path, postgres_server: PostgresServer) -> None:
    name = fresh_name("cli")
    postgres_server.create_database(name)
    ran = rota_command(tmp_path, "server", ROTA_STORE__URL=postgres_server.url(name))
    assert ran.returncode == 2
    assert "error: the store's schema is at nothing, this release needs " in ran.stderr
    assert ran.stderr.splitlines()[-1] == "try: rota db upgrade"


def test_on_the_schema_of_a_later_release_a_new_token_is_all_of_the_standard_output(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rota.db"
    assert rota_command(tmp_path, "db", "upgrade", ROTA_STORE__URL=url).returncode == 0
    with closing(sqlite3.connect(tmp_path / "rota.db")) as connection, connection:
        connection.execute("UPDATE rota_schema_version SET version_num = '9999'")
    ran = rota_command(tmp_path, "token", "create", "first", "--direct", ROTA_STORE__URL=url)
    assert ran.returncode == 0
    assert len(ran.stdout.splitlines()) == 1
    assert "schema.later_than_release" in ran.stderr


def test_a_store_that_is_away_is_told(tmp_path: Path) -> None:
    ran = rota_command(tmp_path, "server", ROTA_STORE__URL="postgresql://rota@127.0.0.1:1/rota")
    assert ran.returncode == 5
    assert ran.stderr.splitlines()[-1].startswith("try: ")
