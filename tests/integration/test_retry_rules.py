"""Retry rules meet the executors: what a service answers, from the task config through a whole node to the end."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import grpc
import pytest
from aiohttp import web

from rota.config.wiring import Role
from tests.support.api import Api, an_api
from tests.support.grpc_jobs import EXECUTE, a_grpc_server, abort_with
from tests.support.grpc_jobs import Service as GrpcService
from tests.support.http_service import a_service


@asynccontextmanager
async def a_node() -> AsyncIterator[Api]:
    """A process with every role, which may call this machine."""
    allow = {"allow": ["127.0.0.0/8", "localhost"]}
    async with an_api(Role.SCHEDULER, Role.WORKER, http=allow, grpc=allow) as api:
        yield api


async def run_task(api: Api, executor: dict[str, Any], **retry: Any) -> dict[str, Any]:
    """The task when it has ended; it is tried twice at most."""
    rules = {"max_retries": 1, "delay_seconds": 0, **retry}
    async with api.client() as http:
        put = await http.put("/task-configs/call", json={"executor": executor, "timeout_seconds": 60, "retry": rules})
        assert put.status_code < 300, put.text
        made = await http.post("/tasks", json={"type": "call", "payload": {}})
        ended: dict[str, Any] = (await http.get(f"/tasks/{made.json()['id']}", params={"wait": "30s"})).json()
    return ended


HTTP: list[tuple[int, dict[str, Sequence[str]], int]] = [
    (503, {}, 2),
    (503, {"retry_on": ["5xx"]}, 2),
    (503, {"retry_on": ["429", "UNAVAILABLE"]}, 1),
    (503, {"retry_on": ["5xx"], "give_up_on": ["503"]}, 1),
    (404, {}, 1),
    (404, {"retry_on": ["404"]}, 2),
    (404, {"retry_on": ["5xx"]}, 1),
]


@pytest.mark.parametrize(("status", "rules", "calls"), HTTP)
async def test_the_status_of_an_http_service_is_matched(
    status: int, rules: dict[str, Sequence[str]], calls: int
) -> None:
    async def answer() -> web.StreamResponse:
        return web.Response(status=status)

    async with a_service() as service, a_node() as api:
        service.answer = answer
        task = await run_task(api, {"type": "http", "url": service.url}, **rules)
    assert (task["status"], task["error"]["code"]) == ("FAILED", f"http_{status}")
    assert (len(service.seen), task["attempt"]) == (calls, calls)


GRPC: list[tuple[grpc.StatusCode, dict[str, Sequence[str]], int]] = [
    (grpc.StatusCode.UNAVAILABLE, {}, 2),
    (grpc.StatusCode.UNAVAILABLE, {"give_up_on": ["UNAVAILABLE"]}, 1),
    (grpc.StatusCode.UNAVAILABLE, {"retry_on": ["5xx", "503"]}, 1),
    (grpc.StatusCode.NOT_FOUND, {}, 1),
    (grpc.StatusCode.NOT_FOUND, {"retry_on": ["NOT_FOUND"]}, 2),
]


@pytest.mark.parametrize(("status", "rules", "calls"), GRPC)
async def test_the_status_of_a_grpc_service_is_matched(
    status: grpc.StatusCode, rules: dict[str, Sequence[str]], calls: int
) -> None:
    service = GrpcService({EXECUTE: abort_with(status, "no")})
    async with a_grpc_server(service) as address, a_node() as api:
        task = await run_task(api, {"type": "grpc", "address": address}, **rules)
    assert (task["status"], task["error"]["code"]) == ("FAILED", f"grpc_{status.name.lower()}")
    assert (len(service.calls), task["attempt"]) == (calls, calls)


async def test_the_time_for_all_attempts_cuts_that_of_a_request() -> None:
    async def hang() -> web.StreamResponse:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async with a_service() as service, a_node() as api:
        service.answer = hang
        task = await run_task(api, {"type": "http", "url": service.url}, total_timeout_seconds=2)
    assert (task["status"], task["error"]["code"], task["attempt"]) == ("TIMEOUT", "total_timeout", 1)
    told = datetime.fromisoformat(json.loads(service.seen[0].body)["deadline"])
    assert told - datetime.fromisoformat(task["created_at"]) == timedelta(seconds=2)
