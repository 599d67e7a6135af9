"""Who did what, over HTTP: the audit log searched, and who led the cluster."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.config.wiring import Role
from rota.domain.access import Role as Access
from tests.support.api import an_api
from tests.support.cluster import eventually


@pytest.fixture(params=["memory", "sqlite"])
async def http(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/rota.db"
    async with an_api(store={"url": url}) as api, api.client() as client:
        yield client


def problem(answer: httpx2.Response) -> tuple[int, str, list[str]]:
    told = answer.json()
    return answer.status_code, told["code"], [error["field"] for error in told["errors"]]


async def found_at(http: httpx2.AsyncClient, path: str) -> list[Any]:
    """The items of a list, once there are some."""

    async def look() -> list[Any] | None:
        return list((await http.get(path)).json()["items"]) or None

    return await eventually(look, path)


async def test_the_record_is_searched_by_who_did_what_to_what_and_when(http: httpx2.AsyncClient) -> None:
    made = (await http.post("/tasks", json={"type": "email"})).json()
    await http.post(f"/tasks/{made['id']}:cancel")
    await http.put("/task-configs/report", json={})
    [put, cancelled, created] = (await http.get("/audit")).json()["items"]

    async def search(**wanted: str) -> list[Any]:
        return list((await http.get("/audit", params=wanted)).json()["items"])

    assert await search(action="task.cancel") == [cancelled]
    assert await search(object=made["id"]) == [cancelled, created]
    assert await search(actor="admin of default", object="report") == [put]
    assert await search(actor="nobody") == []
    assert await search(after="2020-01-01T00:00:00Z") == [put, cancelled, created]
    assert await search(before="2025-01-01T00:00:00Z") == []
    assert await search(cluster="true") == []
    assert problem(await http.get("/audit?actor=%00")) == (422, "invalid_request", ["actor"])
    assert problem(await http.get("/audit?who=x"))[0] == 422


async def test_everybody_sees_who_led_and_admins_find_it_on_record(tmp_path: Path) -> None:
    async with (
        an_api(Role.SCHEDULER, store={"url": f"sqlite:///{tmp_path}/rota.db"}) as api,
        api.client(role=Access.VIEWER) as viewer,
        api.client() as http,
    ):
        [leads] = await found_at(viewer, "/cluster/elections")
        assert (leads["term"], leads["node"]) == (1, api.services.node.id)
        assert (leads["ended_at"], leads["ending"], leads["reason"]) == (None, None, "")
        [entry] = (await http.get("/audit?cluster=true&action=leader.won")).json()["items"]
        assert (entry["actor"], entry["object"], entry["at"]) == (leads["node"], "1", leads["begun_at"])
        assert (await http.get("/audit")).json()["items"] == []
        assert problem(await viewer.get("/cluster/elections?limit=0")) == (422, "invalid_request", ["limit"])
