"""Schedules over HTTP, against a real server."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from rota.application.fire import FireSchedules
from rota.application.reign import Reign
from rota.domain.term import Term
from tests.support.api import Api, an_api
from tests.support.builders import HOUR
from tests.support.cluster import eventually


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(store={"url": "memory://"}) as made:
        yield made


@pytest.fixture
async def http(api: Api) -> AsyncIterator[httpx2.AsyncClient]:
    async with api.client() as client:
        yield client


async def test_a_schedule_is_put_previewed_and_its_occurrences_are_listed(api: Api, http: httpx2.AsyncClient) -> None:
    schedule = {"every_seconds": 1, "overlap": "allow", "zone": "UTC"}
    made = await http.put("/task-configs/tick", json={"schedule": schedule})
    assert (made.status_code, made.json()["schedule"]) == (201, {**schedule, "every_seconds": 1.0})
    assert made.json()["next_fire_at"] is not None
    preview = (await http.get("/task-configs/tick/schedule", params={"count": 3})).json()
    assert (preview["in_english"], preview["in_chinese"]) == ("every 1 second", "每隔 1 秒")
    assert (len(preview["upcoming"]), len(preview["recent"]), preview["runs"]) == (3, 3, 0)
    node = api.services.node
    fire, reign = FireSchedules(node), Reign(Term(1, trusted_until=float("inf")), node.clock)

    async def fired() -> dict[str, str] | None:
        await fire(reign)
        items = (await http.get("/task-configs/tick/occurrences", params={"limit": 1})).json()["items"]
        return items[0] if items else None

    occurrence = await eventually(fired, "the first target")
    assert (occurrence["status"], occurrence["reason"]) == ("FIRED", "")
    task = (await http.get(f"/tasks/{occurrence['task_id']}")).json()
    assert (task["type"], task["scheduled_at"]) == ("tick", occurrence["fire_at"])
    assert (await http.get("/task-configs/tick/schedule")).json()["runs"] >= 1


async def test_a_schedule_that_is_over_or_paused_has_no_next_fire_time(http: httpx2.AsyncClient) -> None:
    past = {"at": "2020-01-01T00:00:00Z"}
    refused = await http.put("/task-configs/once", json={"schedule": past})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "schedule.at")
    once = (await http.post("/schedules:preview", json={"schedule": past})).json()
    assert (once["next_fire_at"], once["upcoming"], once["recent"]) == (None, [], ["2020-01-01T00:00:00Z"])
    assert once["state"] == "ended"
    await http.put("/task-configs/hourly", json={"schedule": {"every_seconds": HOUR.total_seconds()}})
    await http.post("/task-configs/hourly:pause")
    assert (await http.get("/task-configs/hourly/schedule")).json()["next_fire_at"] is None
    await http.put("/task-configs/daily", json={"schedule": {"cron": "@daily", "paused": True}})
    assert (await http.get("/task-configs/daily/schedule")).json()["next_fire_at"] is None
    assert (await http.get("/task-configs/daily")).json()["next_fire_at"] is None


async def test_any_schedule_is_previewed_and_nothing_is_stored(http: httpx2.AsyncClient) -> None:
    body = {"schedule": {"cron": "30 9 * * 1-5", "zone": "Asia/Shanghai"}, "count": 2}
    answer = (await http.post("/schedules:preview", json=body)).json()
    assert answer["in_english"] == "at 09:30, Monday to Friday (Asia/Shanghai)"
    assert answer["in_chinese"].endswith("(Asia/Shanghai)")
    assert all(at[10:] == "T01:30:00Z" for at in answer["upcoming"] + answer["recent"])
    assert len(answer["upcoming"]) == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"schedule": {"cron": "61 * * * *"}}, "schedule.cron"),
        ({"schedule": {"cron": "* * * * *"}, "type": "no good"}, "type"),
        ({"schedule": {"cron": "* * * * *"}, "count": 0}, "count"),
        ({"schedule": {"cron": "* * * * *"}, "count": 1001}, "count"),
        ({}, "schedule"),
    ],
)
async def test_what_cannot_be_previewed_is_refused(
    http: httpx2.AsyncClient, body: dict[str, object], field: str
) -> None:
    answer = await http.post("/schedules:preview", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


async def test_a_type_without_a_config_or_without_a_schedule_says_so(http: httpx2.AsyncClient) -> None:
    await http.put("/task-configs/plain", json={})
    assert (await http.get("/task-configs/plain/schedule")).json()["code"] == "schedule_not_found"
    assert (await http.get("/task-configs/absent/schedule")).json()["code"] == "task_config_not_found"
    assert (await http.get("/task-configs/absent/occurrences")).json()["code"] == "task_config_not_found"
    assert (await http.get("/task-configs/plain/occurrences")).json()["items"] == []
