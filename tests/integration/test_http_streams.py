"""Following events and log lines: what comes, where it goes on, and how it ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from rota.domain.access import Role
from rota.domain.ids import TaskId
from rota.interfaces.http import sse
from tests.support.api import STRANGER, Api, an_api
from tests.support.local_jobs import until

STREAM = {"Accept": "text/event-stream"}


@dataclass(slots=True)
class Message:
    event: str
    id: str | None
    data: Any


async def read_messages(answer: httpx2.Response) -> AsyncIterator[Message]:
    """The messages of a stream; comments are left out."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if line:
            fields |= {name: value} if name else {}
        elif "data" in fields:
            yield Message(fields.get("event", ""), fields.get("id"), json.loads(fields["data"]))
            fields = {}


async def take(answer: httpx2.Response, number: int) -> list[Message]:
    found = []
    async with asyncio.timeout(60):
        async for message in read_messages(answer):
            found.append(message)
            if len(found) == number:
                break
    return found


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api() as made:
        yield made


@pytest.fixture
async def http(api: Api) -> AsyncIterator[httpx2.AsyncClient]:
    async with api.client() as client:
        yield client


async def create(http: httpx2.AsyncClient) -> str:
    task_id: str = (await http.post("/tasks", json={"type": "email"})).json()["id"]
    return task_id


async def test_events_come_as_they_happen(http: httpx2.AsyncClient) -> None:
    async with http.stream("GET", "/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        task_id = await create(http)
        await http.post(f"/tasks/{task_id}:cancel")
        messages = await take(answer, 2)
    assert [(message.event, message.data["task_id"]) for message in messages] == [
        ("task.created", task_id),
        ("task.cancelled", task_id),
    ]
    assert all(message.id == message.data["id"] for message in messages)


async def test_a_client_that_comes_back_goes_on_where_it_was(http: httpx2.AsyncClient) -> None:
    async with http.stream("GET", "/events") as answer:
        first = await create(http)
        heard = (await take(answer, 1))[0]
    missed = [await create(http) for _ in range(3)]
    async with http.stream("GET", "/events", headers={"Last-Event-ID": heard.id or ""}) as answer:
        messages = await take(answer, 3)
    assert heard.data["task_id"] == first
    assert [message.data["task_id"] for message in messages] == missed


async def test_a_client_whose_place_is_forgotten_is_told_so(http: httpx2.AsyncClient) -> None:
    async with http.stream("GET", "/events", headers={"Last-Event-ID": "r17-1767268800250000"}) as answer:
        assert [message.event for message in await take(answer, 1)] == ["missed"]


@pytest.mark.parametrize("place", ["zzz", "17", "m", "m1.5", "M1", "~~", "m1~m2~m3", "m" + "9" * 31])
async def test_what_is_no_place_in_a_stream_is_refused(http: httpx2.AsyncClient, place: str) -> None:
    answer = await http.get("/events", headers={"Last-Event-ID": place})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    [wrong] = answer.json()["errors"]
    assert wrong["field"] == "Last-Event-ID"
    assert f"{place!r} is not the id of an event, such as m17" in wrong["problem"]


async def test_what_is_no_line_of_a_record_is_refused(http: httpx2.AsyncClient) -> None:
    path = f"/tasks/{await create(http)}/logs"
    answer = await http.get(path, headers={**STREAM, "Last-Event-ID": "zzz"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "Last-Event-ID")


async def test_an_empty_place_is_none(http: httpx2.AsyncClient) -> None:
    async with http.stream("GET", "/events", headers={"Last-Event-ID": ""}) as answer:
        task_id = await create(http)
        assert [message.data["task_id"] for message in await take(answer, 1)] == [task_id]


async def test_events_can_be_narrowed_and_are_of_one_tenant(api: Api, http: httpx2.AsyncClient) -> None:
    async with api.client(tenant_id=STRANGER) as stranger, http.stream("GET", "/events?kind=task.cancelled") as answer:
        foreign = await create(stranger)
        await stranger.post(f"/tasks/{foreign}:cancel")
        task_id = await create(http)
        await http.post(f"/tasks/{task_id}:cancel")
        assert [message.data["task_id"] for message in await take(answer, 1)] == [task_id]


async def test_a_stream_that_has_nothing_to_say_shows_that_it_lives(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT", timedelta(milliseconds=20))
    async with http.stream("GET", "/events") as answer:
        lines = answer.aiter_lines()
        async with asyncio.timeout(60):
            while not (await anext(lines)).startswith(": still here"):
                pass


async def test_a_stream_ends_when_its_token_does(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LOOK_AT_TOKEN", timedelta(milliseconds=20))
    token, secret = await api.services.tokens.issue(
        tenant_id=STRANGER, name="brief", role=Role.VIEWER, expires_in=None, actor=None
    )
    async with (
        httpx2.AsyncClient(timeout=60, headers={"Authorization": f"Bearer {secret}"}) as client,
        client.stream("GET", f"{api.url}/api/v1/events") as answer,
    ):
        await api.services.tokens.revoke(token.id, STRANGER, actor=None)
        text = "".join([chunk async for chunk in answer.aiter_text()])
    assert "no longer good" in text


async def test_the_record_of_a_task_is_followed_to_its_end(api: Api, http: httpx2.AsyncClient) -> None:
    task_id = await create(http)
    async with http.stream("GET", f"/tasks/{task_id}/logs", headers=STREAM) as answer:
        assert answer.status_code == 200
        await http.post(f"/tasks/{task_id}:cancel", json={"reason": "enough"})
        async with asyncio.timeout(60):
            messages = [message async for message in read_messages(answer)]
    assert [message.event for message in messages] == ["log", "log", "end"]
    assert [message.data.get("to_status") for message in messages[:2]] == ["PENDING", "CANCELLED"]
    assert messages[2].data["status"] == "CANCELLED"
    place = {**STREAM, "Last-Event-ID": messages[0].id or ""}
    async with http.stream("GET", f"/tasks/{task_id}/logs", headers=place) as answer:
        assert [message.event for message in await take(answer, 2)] == ["log", "end"]


async def test_a_task_that_is_not_there_cannot_be_followed(api: Api, http: httpx2.AsyncClient) -> None:
    task_id = await create(http)
    assert (await http.get("/tasks/7/logs", headers=STREAM)).status_code == 404
    async with api.client(tenant_id=STRANGER) as stranger:
        assert (await stranger.get(f"/tasks/{task_id}/logs", headers=STREAM)).status_code == 404


async def test_a_task_that_is_deleted_ends_its_stream(api: Api, http: httpx2.AsyncClient) -> None:
    follow = api.services.follow
    with pytest.raises(Exception, match="does not exist"):
        async for _ in follow.follow(TaskId(7), STRANGER, after=0):
            pass


async def test_there_is_a_most_of_streams() -> None:
    async with an_api(api={"max_streams": 1}) as api, api.client() as http:
        async with http.stream("GET", "/events") as first:
            assert first.status_code == 200
            second = await http.get("/events")
            assert (second.status_code, second.json()["code"]) == (503, "too_many_streams")
            assert second.headers["retry-after"]

        async def again() -> int:
            async with http.stream("GET", "/events") as answer:
                return answer.status_code

        async with asyncio.timeout(60):
            while await again() != 200:
                await asyncio.wait([asyncio.create_task(http.get("/stats"))])


async def test_a_server_that_stops_ends_its_streams_and_its_waits() -> None:
    async with an_api() as api, api.client() as http:
        task_id = await create(http)
        async with http.stream("GET", "/events") as answer:
            waiting = asyncio.create_task(http.get(f"/tasks/{task_id}?wait=60"))
            await until(lambda: bool(api.services.watch._waits))
            api.built.roles.stop()
            text = "".join([chunk async for chunk in answer.aiter_text()])
        assert "the server stops" in text
        assert (await waiting).json()["status"] == "PENDING"
