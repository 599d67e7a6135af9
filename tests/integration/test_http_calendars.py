"""Calendars, forecasts and backfills over HTTP, against a real server."""

import base64
import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.support.api import Api, an_api

ICS = """BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART;VALUE=DATE:20260501
DTEND;VALUE=DATE:20260503
END:VEVENT
END:VCALENDAR
"""


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(store={"url": "memory://"}) as made:
        yield made


@pytest.fixture
async def http(api: Api) -> AsyncIterator[httpx2.AsyncClient]:
    async with api.client() as client:
        yield client


async def test_a_country_gives_its_business_days_with_those_that_are_worked_instead(http: httpx2.AsyncClient) -> None:
    made = await http.put("/calendars/cn", json={"country": "CN", "first_year": 2026, "last_year": 2026})
    assert (made.status_code, made.json()["origin"], made.json()["years"]) == (
        201,
        "the business_days of CN",
        [2026, 2026],
    )
    found = (await http.get("/calendars/cn")).json()
    assert "2026-02-17" in found["business_days"]["holidays"]
    assert "2026-02-14" in found["business_days"]["workdays"]
    [listed] = (await http.get("/calendars")).json()["items"]
    assert (listed["name"], "dates" in listed) == ("cn", False)


async def test_a_file_and_a_schedule_that_keeps_out_of_its_days(http: httpx2.AsyncClient) -> None:
    await http.put("/calendars/closed", json={"ics": ICS})
    assert (await http.get("/calendars/closed")).json()["dates"] == ["2026-05-01", "2026-05-02"]
    schedule = {"at": ["2026-05-01T09:00:00Z", "2026-05-04T09:00:00Z"], "exclude": ["closed"]}
    preview = (await http.post("/schedules:preview", json={"schedule": schedule})).json()
    assert [(one["fire_at"], one["effect"], one["detail"]) for one in preview["effects"]] == [
        ("2026-05-01T09:00:00Z", "skipped", "in closed")
    ]
    daily = {"cron": "@daily", "exclude": ["closed"]}
    await http.put("/task-configs/report", json={"schedule": daily})
    refused = await http.delete("/calendars/closed")
    assert (refused.status_code, refused.json()["code"]) == (409, "calendar_in_use")
    assert (await http.delete("/task-configs/report")).status_code == 204
    assert (await http.delete("/calendars/closed")).status_code == 204
    assert (await http.get("/calendars/closed")).json()["code"] == "calendar_not_found"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"country": "XX"}, "calendar.country"),
        ({"country_days": "weekends"}, "country_days"),
        ({"subdivision": "BY"}, "country"),
        ({"dates": ["tomorrow"]}, "calendar.dates[0]"),
        ({"ics": "nothing"}, "calendar.ics"),
        ({"holidays": []}, "holidays"),
        ({"years": [1999, 2026]}, "years[0]"),
    ],
)
async def test_what_is_wrong_with_a_calendar_is_named(
    http: httpx2.AsyncClient, body: dict[str, object], field: str
) -> None:
    refused = await http.put("/calendars/bad", json=body)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)
    assert (await http.get("/calendars")).json()["items"] == []


async def test_an_unknown_calendar_is_refused_in_a_schedule(http: httpx2.AsyncClient) -> None:
    refused = await http.put("/task-configs/report", json={"schedule": {"cron": "0 9 * * *", "only": ["moon"]}})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "schedule.only")


async def test_a_forecast_says_what_would_fire(http: httpx2.AsyncClient) -> None:
    await http.put("/task-configs/hourly", json={"schedule": {"cron": "0 * * * *"}})
    times = {"begin": "2030-01-01T00:00:00Z", "end": "2030-01-02T00:00:00Z", "buckets": "2"}
    found = (await http.get("/schedules:forecast", params=times)).json()
    assert (found["runs"], [bucket["runs"] for bucket in found["buckets"]]) == (24, [12, 12])
    assert (found["types"][0]["type"], found["complete"]) == ("hourly", True)
    assert len((await http.get("/schedules:forecast")).json()["buckets"]) == 24


async def test_past_targets_are_made_up_for(http: httpx2.AsyncClient) -> None:
    await http.put("/task-configs/hourly", json={"schedule": {"cron": "0 * * * *"}})
    body = {"begin": "2026-01-01T00:00:00Z", "end": "2026-01-01T03:00:00Z", "limit": 2, "only_missing": False}
    first = (await http.post("/task-configs/hourly:backfill", json=body)).json()
    assert (first["total"], [one["action"] for one in first["items"]]) == (3, ["run", "run"])
    last = (await http.post("/task-configs/hourly:backfill", json={**body, "cursor": first["next_cursor"]})).json()
    assert (len(last["items"]), last["next_cursor"]) == (1, None)
    task = (await http.get(f"/tasks/{last['items'][0]['task_id']}")).json()
    assert (task["scheduled_at"], task["metadata"]) == ("2026-01-01T02:00:00Z", {"backfill": "backfill"})
    wrong = await http.post("/task-configs/hourly:backfill", json={**body, "order": "random"})
    assert wrong.json()["errors"][0]["field"] == "order"
    for place in (2, "2026-01-01T00:00:00+00:00", "2026-01-01 3", "2026-01-01T00:00:00+00:00 -1"):
        cursor = base64.urlsafe_b64encode(json.dumps([place]).encode()).decode()
        wrong = await http.post("/task-configs/hourly:backfill", json={**body, "cursor": cursor})
        assert [one["field"] for one in wrong.json()["errors"]] == ["cursor"], place
