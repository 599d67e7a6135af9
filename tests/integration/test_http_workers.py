"""Workers and the cluster, over HTTP, with a worker that really runs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.config.settings import SCHEMA
from rota.config.wiring import Role
from rota.domain import access
from tests.support.api import an_api
from tests.support.cluster import eventually


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    worker: dict[str, Any] = {"name": "pod", "capacity": 3, "labels": {"zone": "a"}, "heartbeat_interval": "100ms"}
    async with (
        an_api(Role.SCHEDULER, Role.WORKER, store={"url": f"sqlite:///{tmp_path}/rota.db"}, worker=worker) as api,
        api.client() as client,
    ):
        yield client


async def find_worker(http: httpx2.AsyncClient) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        items: list[dict[str, Any]] = (await http.get("/workers")).json()["items"]
        return items[0] if items else None

    return await eventually(look, "the worker")


async def wait_for(http: httpx2.AsyncClient, worker_id: str, **wanted: Any) -> None:
    async def look() -> bool | None:
        seen = (await http.get(f"/workers/{worker_id}")).json()
        return True if {key: seen[key] for key in wanted} == wanted else None

    await eventually(look, f"the worker with {wanted}")


async def test_a_worker_is_shown_drained_resumed_and_resized(http: httpx2.AsyncClient) -> None:
    worker = await find_worker(http)
    assert (worker["name"], worker["capacity"], worker["alive"], worker["labels"]) == ("pod", 3, True, {"zone": "a"})
    assert (await http.post(f"/workers/{worker['id']}:drain")).status_code == 200
    await wait_for(http, worker["id"], draining=True)
    assert (await http.post(f"/workers/{worker['id']}:resume")).status_code == 200
    await wait_for(http, worker["id"], draining=False)
    assert (await http.patch(f"/workers/{worker['id']}", json={"capacity": 7})).status_code == 200
    await wait_for(http, worker["id"], capacity=7)
    refused = await http.patch(f"/workers/{worker['id']}", json={"capacity": 0})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "capacity")
    following = (await http.get("/workers?all=true&limit=1")).json()["next_cursor"]
    assert (await http.get("/workers", params={"cursor": following})).json()["items"] == []
    assert (await http.get("/workers/7")).json()["code"] == "worker_not_found"


async def test_the_settings_in_force_are_shown_with_their_origins_and_without_secrets() -> None:
    secrets = {"default": {"keys": [f"whsec_{'a' * 32}"], "hosts": ["crm"]}}
    async with an_api(http={"secrets": secrets}) as api, api.client() as http:
        answer = await http.get("/settings")
        assert (answer.status_code, answer.json()["node"]) == (200, api.services.node.id)
        async with api.client(access.Role.OPERATOR) as operator:
            assert (await operator.get("/settings")).status_code == 403
    shown = {one["key"]: one for one in answer.json()["items"]}
    assert shown.keys() == SCHEMA.keys()
    port = shown["api.port"]
    assert (port["value"], port["default"], port["source"]) == (0, 8420, "flag")
    assert port["origin"] == "flag --set api.port=…"
    assert (port["live"], shown["api.rate"]["live"], port["restart_needed"]) == (False, True, False)
    assert shown["http.secrets"]["value"] == "***"
    assert "whsec_a" not in answer.text


async def test_the_cluster_shows_its_nodes_and_who_leads(http: httpx2.AsyncClient) -> None:
    async def look() -> dict[str, Any] | None:
        found: dict[str, Any] = (await http.get("/cluster")).json()
        return found if found["leader"] and found["nodes"] else None

    found = await eventually(look, "a leader")
    assert (found["store"], found["coordinator"]) == ("sqlite", "memory")
    assert found["nodes"][0]["roles"] == ["api", "scheduler", "worker"]
    assert found["nodes"][0]["id"] == found["leader"]
    queues = (await http.get("/queues")).json()
    assert [level["priority"] for level in queues["items"]] == list(range(9, -1, -1))
