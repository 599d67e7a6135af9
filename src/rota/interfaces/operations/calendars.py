"""Operations on calendars."""

from typing import Any

from rota.application.manage_calendars import CountryDays, Sources
from rota.domain.access import Role
from rota.domain.calendar import StoredCalendar
from rota.domain.calendar_form import calendar_from, calendar_to
from rota.domain.checks import check_name
from rota.domain.errors import InvalidError
from rota.interfaces.operations import read
from rota.interfaces.operations.operation import MIB, Call, NoQuery, Operation, Reply
from rota.interfaces.operations.queries import ListQuery
from rota.wire import calendar as wire
from rota.wire.base import Page

ABSENT = "calendar_not_found"


async def list_calendars(call: Call[ListQuery, None]) -> Reply:
    limit, after = call.query.limit, read.text_cursor(call.query.cursor)
    found = await call.services.calendars.list_page(call.tenant_id, after=after, limit=limit)
    following = read.cursor_after(found, limit, place=lambda one: one.name)
    items = [wire.CalendarSummary(**_summary(one)) for one in found]
    return Reply(200, Page[wire.CalendarSummary](items=items, next_cursor=following))


async def get_calendar(call: Call[NoQuery, None]) -> Reply:
    return Reply(200, _answer(await call.services.calendars.get(call.tenant_id, _name(call))))


async def put_calendar(call: Call[NoQuery, wire.PutCalendar]) -> Reply:
    body = call.body
    given = {"dates": body.dates, "windows": body.windows, "periods": body.periods}
    calendar = calendar_from(_name(call), {**given, "business_days": body.business_days, "years": body.years or None})
    stored = await call.services.calendars.put(
        StoredCalendar(calendar=calendar, tenant_id=call.tenant_id, description=body.description),
        sources=_sources(body),
        expected_revision=body.revision,
        actor=call.actor,
    )
    return Reply(201 if stored.revision == 1 else 200, _answer(stored))


async def delete_calendar(call: Call[NoQuery, None]) -> Reply:
    await call.services.calendars.delete(call.tenant_id, _name(call), actor=call.actor)
    return Reply(204)


def _name(call: Call[Any, Any]) -> str:
    return check_name("name", call.path["name"])


def _sources(body: wire.PutCalendar) -> Sources | None:
    if body.country_days not in list(CountryDays):
        raise InvalidError("country_days", f"must be one of {', '.join(CountryDays)}")
    if body.country is None and (body.subdivision is not None or body.first_year or body.last_year):
        raise InvalidError("country", "is needed with subdivision, first_year and last_year")
    if body.country is None and body.ics is None:
        return None
    return Sources(
        country=body.country,
        subdivision=body.subdivision,
        days=CountryDays(body.country_days),
        first_year=body.first_year,
        last_year=body.last_year,
        ics=body.ics,
    )


def _summary(stored: StoredCalendar) -> dict[str, Any]:
    return {
        "name": stored.name,
        "tenant": stored.tenant_id,
        "description": stored.description,
        "origin": stored.origin,
        "years": list(stored.calendar.years or ()),
        "revision": stored.revision,
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
    }


def _answer(stored: StoredCalendar) -> wire.Calendar:
    written = calendar_to(stored.calendar)
    return wire.Calendar(
        **_summary(stored),
        dates=written.get("dates", []),
        windows=written.get("windows", []),
        periods=written.get("periods", []),
        business_days=written.get("business_days"),
    )


OPERATIONS = (
    Operation(
        name="list_calendars",
        method="GET",
        path="/calendars",
        summary="List the calendars by name.",
        role=Role.VIEWER,
        handler=list_calendars,
        query=ListQuery,
        answers={200: Page[wire.CalendarSummary]},
    ),
    Operation(
        name="get_calendar",
        method="GET",
        path="/calendars/{name}",
        summary="Get a calendar with its days.",
        role=Role.VIEWER,
        handler=get_calendar,
        answers={200: wire.Calendar},
        errors=(ABSENT,),
    ),
    Operation(
        name="put_calendar",
        method="PUT",
        path="/calendars/{name}",
        summary="Create or replace a calendar; schedules that name it follow.",
        role=Role.ADMIN,
        handler=put_calendar,
        body=wire.PutCalendar,
        answers={200: wire.Calendar, 201: wire.Calendar},
        errors=("revision_conflict",),
        most_bytes=2 * MIB,
    ),
    Operation(
        name="delete_calendar",
        method="DELETE",
        path="/calendars/{name}",
        summary="Delete a calendar that no schedule names.",
        role=Role.ADMIN,
        handler=delete_calendar,
        answers={204: None},
        errors=(ABSENT, "calendar_in_use"),
    ),
)
