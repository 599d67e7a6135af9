"""What Prometheus's own tool says of our figures, scraped from a process that has worked."""

import subprocess

from rota.config.wiring import Role
from rota.sdk import samples
from rota.sdk.tasks import TaskRegistry
from tests.support.api import Api, an_api
from tests.support.require import require_server
from tests.support.servers.binaries import get_binary


async def scrape_after_work(api: Api) -> bytes:
    async with api.client() as http:
        created = await http.post("/tasks", json={"type": "sample_hello"})
        failing = {"type": "sample_flaky", "retry": {"max_retries": 1, "delay_seconds": 0}}
        failed = await http.post("/tasks", json=failing)
        for answer, end in ((created, "SUCCESS"), (failed, "FAILED")):
            assert (await http.get(f"/tasks/{answer.json()['id']}?wait=60")).json()["status"] == end
        assert (await http.post("/tasks", json={"type": "no_such_type"})).status_code == 422
        return (await http.get(f"{api.url}/metrics")).content


async def test_promtool_finds_nothing_wrong_with_the_figures_of_a_process_at_work() -> None:
    require_server("promtool")
    tasks = TaskRegistry()
    for function in (samples.hello, samples.flaky):
        tasks.add(function)

    async with an_api(Role.SCHEDULER, Role.WORKER, tasks=tasks) as api:
        figures = await scrape_after_work(api)
    assert b'rota_worker_attempts_total{outcome="failed",type="sample_flaky"} 2.0' in figures

    judged = subprocess.run(  # noqa: S603 ASYNC221 a fixed command, and nothing else runs here
        [str(get_binary("promtool")), "check", "metrics"], input=figures, capture_output=True, timeout=20, check=False
    )
    assert (judged.returncode, judged.stdout + judged.stderr) == (0, b"")
