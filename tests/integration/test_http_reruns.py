"""Tasks that are run again over HTTP, and what leads from one to the other."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.support.api import an_api


@pytest.fixture(params=["memory", "sqlite"])
async def http(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/rota.db"
    async with an_api(store={"url": url}) as api, api.client() as client:
        yield client


async def test_a_task_is_run_again_with_other_input_and_both_name_each_other(http: httpx2.AsyncClient) -> None:
    wish = {"type": "email", "name": "hello", "priority": 5, "metadata": {"order": "42"}, "timeout_seconds": 7}
    first = (await http.post("/tasks", json={**wish, "payload": {"to": "ada"}})).json()
    refused = await http.post(f"/tasks/{first['id']}:retry")
    assert refused.status_code == 409, "it has not ended, and would do the same twice"

    answer = await http.post(f"/tasks/{first['id']}:retry", json={"payload": {"to": "bob"}})
    assert answer.status_code == 201
    again = answer.json()
    assert (again["payload"], again["rerun_of"]) == ({"to": "bob"}, first["id"])
    assert {name: again[name] for name in wish} == wish
    lines = (await http.get(f"/tasks/{first['id']}/logs")).json()["items"]
    assert "rerun_as" not in lines[-1]["detail"], "whoever follows a running one would miss what it says later"

    await http.post(f"/tasks/{first['id']}:cancel")
    again = (await http.post(f"/tasks/{first['id']}:retry", json={"payload": {"to": "eve"}})).json()
    lines = (await http.get(f"/tasks/{first['id']}/logs")).json()["items"]
    assert lines[-1]["detail"] == f'{{"rerun_as": "{again["id"]}"}}'
    wrong = await http.post(f"/tasks/{first['id']}:retry", json={"payload": "text"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "payload")
    unknown = await http.post(f"/tasks/{first['id']}:retry", json={"input": {}})
    assert unknown.status_code == 422
