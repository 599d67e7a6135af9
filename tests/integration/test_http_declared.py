"""Types that code declared, as people see and change them over HTTP."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from rota.config.declare import declare
from rota.config.settings import TaskSettings
from rota.sdk.tasks import TaskFunction, TaskOptions, define
from rota.wire.changes import TOLD_ONLY
from tests.support.api import Api, an_api

DEFAULTS = TaskSettings(timeout=timedelta(seconds=300), max_retries=3, retry_delay=timedelta(seconds=10))


@pytest.fixture(params=["memory", "sqlite"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/rota.db"
    async with an_api(store={"url": url}) as api:
        yield api


async def start(api: Api, **options: Any) -> None:
    """As if the process had started with this code."""

    def add(a: int, b: int) -> int:
        return a + b

    node = api.services.node
    function = TaskFunction(add, define("add", TaskOptions(**options)))  # type: ignore[typeddict-item] # any of them
    await declare([function], node, defaults=DEFAULTS, now=node.time.now())


async def get(http: httpx2.AsyncClient) -> dict[str, Any]:
    return dict((await http.get("/task-configs/add")).json())


async def put(http: httpx2.AsyncClient, document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """What the form and `rota config-type apply` do with a document that they got."""
    definition = {key: value for key, value in document.items() if key not in TOLD_ONLY}
    return dict((await http.put("/task-configs/add", json=definition | changes)).json())


async def test_what_an_operator_put_outlives_a_deploy_and_the_log_says_so(api: Api) -> None:
    await start(api)
    async with api.client() as http:
        await put(http, await get(http), timeout_seconds=77)
        with capture_logs() as logs:
            await start(api, retries=7)
        kept = await get(http)
    assert (kept["timeout_seconds"], kept["retry"]["max_retries"], kept["revision"]) == (77, 3, 2)
    [told] = [one for one in logs if one["event"] == "config.differs_from_code"]
    assert (told["fields"], told["updated_by"]) == (["timeout", "retry"], "admin of default")


async def test_an_unchanged_document_is_no_change_and_the_type_stays_the_code_s(api: Api) -> None:
    await start(api, timeout="5s")
    async with api.client() as http:
        shown = await get(http)
        assert shown["executor"] == {"type": "local"}
        assert await put(http, shown) == shown
        await start(api, timeout="6s")
        changed = await get(http)
        assert (changed["timeout_seconds"], changed["revision"]) == (6, 2)
        assert changed["updated_by"] == api.services.node.id
        [news, first] = (await http.get("/audit?action=config.declare")).json()["items"]
    assert (news["actor"], news["object"], news["detail"]) == (api.services.node.id, "add", "timeout")
    assert first["detail"] == "new"


async def test_a_roll_back_to_what_older_code_declared_is_not_undone_by_a_restart(api: Api) -> None:
    await start(api, timeout="5s")
    await start(api, timeout="6s")
    async with api.client() as http:
        await http.post("/task-configs/add:rollback", json={"revision": 1})
        await start(api, timeout="6s")
        assert (await get(http))["timeout_seconds"] == 5


async def test_a_type_that_was_deleted_is_the_code_s_again(api: Api) -> None:
    await start(api)
    async with api.client() as http:
        await put(http, await get(http), timeout_seconds=77)
        await http.delete("/task-configs/add")
        await start(api)
        await start(api, timeout="8s")
        assert (await get(http))["timeout_seconds"] == 8
