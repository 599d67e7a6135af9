"""The history of one's own cluster: what its processes wrote, the rows added to it, judged."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.application.steer import SteerTasks
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.task import SUCCESS
from tests.support import cluster_app
from tests.support.cluster import REPOSITORY, Cluster, a_cluster, bare_environment

APP = Path(cluster_app.__file__)
pytestmark = pytest.mark.timeout(180)
KEPT = {"I3", "I6", "I7", "I8", "I9", "I10", "I11", "I12", "I13", "I14", "I22", "L1", "L6"}


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"tools.{name}", *arguments]
    around: dict[str, Any] = {"cwd": REPOSITORY, "env": bare_environment()}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **around)  # noqa: S603 ours


async def submit_some(cluster: Cluster) -> None:
    async with rota.Rota(cluster.settings, roles=()) as client:
        handles = [
            await client.submit("noop", {}, metadata={"order": f"A{number}", "key": "no key"}) for number in range(5)
        ]
        handles += [await client.submit("flaky", {"failures": 1}), await client.submit("noop", {}, delay="1s")]
        moved = await client.submit("noop", {}, delay="1h")
        node = client._node
        await SteerTasks(node).amend(TaskId(int(moved.id)), DEFAULT_TENANT, due_at=node.clock.now())
        ends = await asyncio.gather(*(handle.wait("60s") for handle in [*handles, moved]))
        assert {task.status for task in ends} == {SUCCESS}


async def test_what_a_cluster_did_is_judged_by_what_its_processes_and_its_store_say(tmp_path: Path) -> None:
    settings = {"store": {"url": f"sqlite:///{tmp_path}/rota.db"}, "coordinator": {"url": "sql://"}}
    with a_cluster(tmp_path, settings, app=APP) as cluster:
        cluster.keeps_history = True
        pod = cluster.start("server", "pod")
        await submit_some(cluster)
        assert pod.stop() == 0
    rows = cluster.histories / "rows.jsonl"
    collect = (
        "collect_history",
        "--config",
        str(cluster.folder / "rota.yaml"),
        "--out",
        str(rows),
        "--key-in",
        "order",
    )
    collected = await asyncio.to_thread(run_tool, *collect)
    assert (collected.returncode, collected.stderr) == (0, "")
    assert collected.stdout == f"{rows}: 8 tasks\n"
    answer = await asyncio.to_thread(run_tool, "check_history", str(cluster.histories), "--calm")
    words = [line.split()[:2] for line in answer.stdout.splitlines()]
    assert answer.returncode == 0, answer.stdout
    assert {name for name, *word in words if word == ["kept"]} == KEPT
    again = await asyncio.to_thread(run_tool, *collect)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


def test_a_cluster_that_is_not_there_is_told_in_a_line(tmp_path: Path) -> None:
    config, out = tmp_path / "rota.yaml", tmp_path / "rows.jsonl"
    config.write_text(json.dumps({"store": {"url": "postgresql://127.0.0.1:1/rota"}}))
    answer = run_tool("collect_history", "--config", str(config), "--out", str(out))
    assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)
    assert not out.exists()
