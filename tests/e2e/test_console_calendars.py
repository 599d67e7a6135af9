"""Calendars in a real browser: days are clicked at, and what nobody touched stays as it was."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import rota
from tests.support.console import Dev, Visitor, a_visitor

pytestmark = pytest.mark.timeout(240)

WEEKEND = {"weekdays": [6, 7], "begin": "00:00:00", "end": "00:00:00"}
NIGHT = {"weekdays": [5], "begin": "22:00:00", "end": "06:00:00"}
FREEZE = {"begin": "2026-12-20T00:00:00Z", "end": "2027-01-05T00:00:00Z"}


@pytest.fixture(autouse=True)
def none_left(client: rota.Client) -> Iterator[None]:
    """Others look at what is said where there is no calendar."""
    yield
    for calendar in list(client.calendars.list()):
        client.calendars.delete(calendar.name)


def the_day(page: Page, day: str) -> Locator:
    return page.locator(f"[data-day='{day}']")


def save(page: Page, name: str) -> None:
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)  # until then, whoever leaves is asked
    expect(page.get_by_role("heading", name=name)).to_be_visible()


def edit(visitor: Visitor, name: str, *, year: int = 2026) -> None:
    visitor.go(f"/calendars/{name}?year={year}")
    visitor.page.get_by_role("button", name="Edit").click()
    expect(visitor.page.get_by_role("button", name="Save")).to_be_visible()


def test_a_calendar_is_made_by_clicking_days_and_found_in_the_list(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/calendars")
    page.get_by_role("button", name="New calendar").click()
    page.get_by_role("textbox", name="Name").fill("clicked.days")
    page.get_by_label("Description").fill("When the office is closed.")
    page.get_by_role("button", name="Next year").click()
    expect(page).to_have_url(re.compile("year="))
    year = int(page.url.rpartition("=")[2])
    expect(page.get_by_test_id("year").get_by_role("button")).to_have_count(366 if year % 4 == 0 else 365)
    for day in (f"{year}-12-31", f"{year}-12-24", f"{year}-05-01"):
        the_day(page, day).click()
        expect(the_day(page, day)).to_have_attribute("aria-pressed", "true")
    the_day(page, f"{year}-05-01").click()
    expect(the_day(page, f"{year}-05-01")).to_have_attribute("aria-pressed", "false")
    save(page, "clicked.days")
    expect(page.get_by_text("No schedule names it.")).to_be_visible()
    assert client.calendars.get("clicked.days").dates == [f"{year}-12-24", f"{year}-12-31"]
    page.get_by_role("link", name="Calendars", exact=True).click()
    row = page.locator("[data-calendar='clicked.days']")
    expect(row).to_contain_text("When the office is closed.")
    expect(row).to_contain_text(f"Dec 24, {year}")


def test_of_a_calendar_that_is_edited_the_rest_stays_as_it_was(visitor: Visitor, client: rota.Client) -> None:
    business = {"weekdays": [1, 2, 3, 4, 5], "holidays": ["2026-10-01"], "workdays": ["2026-10-10"]}
    given = {"dates": ["2026-12-26"], "windows": [WEEKEND, NIGHT], "periods": [FREEZE], "years": [2026, 2027]}
    before = client.calendars.put("edited.parts", {**given, "business_days": business, "description": "Work."})
    page = visitor.page
    edit(visitor, "edited.parts")
    expect(page.get_by_test_id("parts")).to_contain_text(re.compile("Fri · 22:00.06:00"))
    for day in ("2026-10-01", "2026-10-02", "2026-12-26", "2026-12-27"):  # free, worked, in it, at a weekend
        the_day(page, day).click()
    save(page, "edited.parts")
    stored = client.calendars.get("edited.parts")
    assert (stored.windows, stored.periods, stored.years) == (before.windows, before.periods, [2026, 2027])
    assert (stored.description, stored.dates) == ("Work.", [])
    changed = {"holidays": ["2026-10-02"], "workdays": ["2026-10-10", "2026-12-27"]}
    assert stored.business_days == business | changed
    edit(visitor, "edited.parts")
    the_day(page, "2026-10-02").click()
    the_day(page, "2026-10-02").click()
    page.get_by_role("main").get_by_role("button", name="Back").click()  # without a question: it is as it was
    expect(page.get_by_role("button", name="Edit")).to_be_visible()


def test_hours_and_periods_are_told_apart_from_whole_days(visitor: Visitor, client: rota.Client) -> None:
    client.calendars.put("told.apart", {"dates": ["2027-01-06"], "windows": [NIGHT], "periods": [FREEZE]})
    page = visitor.page
    visitor.go("/calendars/told.apart?year=2027")
    marked = page.get_by_test_id("year").get_by_role("img")
    expect(marked).not_to_have_count(0)
    days: list[str] = marked.evaluate_all("days => days.map(day => day.dataset.day)")
    january = [day for day in days if day.startswith("2027-01")]
    nights = [f"2027-01-{day:02}" for day in (8, 9, 15, 16, 22, 23, 29, 30)]  # from Friday to Saturday
    assert january == [*(f"2027-01-{day:02}" for day in (1, 2, 3, 4, 6)), *nights]
    whole = page.get_by_role("img", name="in the calendar")
    expect(whole).to_have_count(1)
    expect(whole).to_have_attribute("data-day", "2027-01-06")


def test_a_span_of_days_is_typed(visitor: Visitor, client: rota.Client) -> None:
    client.calendars.put("typed.span", {"dates": ["2026-07-01"]})
    page = visitor.page
    edit(visitor, "typed.span")
    page.get_by_label("From", exact=True).fill("2027-12-30")
    page.get_by_label("To", exact=True).fill("2028-01-02")
    page.get_by_label("To", exact=True).press("Enter")
    expect(the_day(page, "2027-12-30")).to_have_attribute("aria-pressed", "true")
    page.get_by_label("From", exact=True).fill("2027-12-31")
    page.get_by_role("button", name="Take days out").click()
    expect(the_day(page, "2027-12-31")).to_have_attribute("aria-pressed", "false")
    save(page, "typed.span")
    days = ["2026-07-01", "2027-12-30", "2028-01-01", "2028-01-02"]
    assert client.calendars.get("typed.span").dates == days


def test_a_year_is_gone_through_by_keyboard(visitor: Visitor, client: rota.Client) -> None:
    client.calendars.put("by.keyboard", {"dates": ["2030-01-31"]})
    page = visitor.page
    edit(visitor, "by.keyboard", year=2030)
    page.get_by_role("button", name="Next year").focus()
    page.keyboard.press("Tab")
    expect(the_day(page, "2030-01-01")).to_be_focused()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.get_by_role("button", name="Friday, February 1, 2030")).to_be_focused()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("From", exact=True)).to_be_focused()
    save(page, "by.keyboard")
    assert client.calendars.get("by.keyboard").dates == ["2030-02-01"]


def test_a_calendar_begins_with_the_days_of_a_country(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/calendars/+new")
    page.get_by_role("textbox", name="Name").fill("of.a.country")
    page.get_by_label("Begins with").select_option("business_days")
    page.get_by_label("Country code").fill("cn")
    page.get_by_label("First year").fill("2026")
    page.get_by_label("Last year").fill("2026")
    save(page, "of.a.country")
    expect(the_day(page, "2026-02-14")).to_have_accessible_name(
        "Saturday, February 14, 2026 · in the calendar · unlike its week"
    )
    page.get_by_role("button", name="Next year").click()
    expect(page.get_by_text("In 2027 nothing fires with it.")).to_be_visible()
    assert client.calendars.get("of.a.country").origin == "the business_days of CN"
    page.get_by_label("Language").select_option("zh-CN")
    expect(page.get_by_text("CN 的工作日")).to_be_visible()


def test_a_calendar_is_deleted_after_a_question_unless_a_schedule_names_it(
    visitor: Visitor, client: rota.Client
) -> None:
    client.calendars.put("deleted.soon", {"dates": ["2026-12-24"]})
    schedule = {"cron": "0 9 * * *", "exclude": ["deleted.soon"]}
    client.configs.put("calendars.user", {"executor": {"type": "local"}, "schedule": schedule})
    page = visitor.page
    visitor.go("/calendars/deleted.soon")
    expect(page.get_by_test_id("users")).to_contain_text("calendars.usernever within it")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Back").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("alert")).to_contain_text("named by the schedules of calendars.user")
    client.configs.delete("calendars.user")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Calendars")).to_be_visible()
    expect(page.locator("[data-calendar='deleted.soon']")).to_have_count(0)
    assert "deleted.soon" not in [one.name for one in client.calendars.list()]


def test_a_calendar_that_somebody_else_changed_meanwhile_is_not_overwritten(
    visitor: Visitor, client: rota.Client
) -> None:
    client.calendars.put("changed.twice", {"dates": ["2026-12-24"]})
    page = visitor.page
    edit(visitor, "changed.twice")
    client.calendars.put("changed.twice", {"dates": ["2026-12-25"]})
    the_day(page, "2026-12-31").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody else changed it meanwhile")
    page.get_by_role("link", name="Workers", exact=True).click()
    page.get_by_role("dialog", name="Discard what you have typed?").get_by_role("button", name="Back").click()
    expect(the_day(page, "2026-12-31")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("main").get_by_role("button", name="Back").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    expect(the_day(page, "2026-12-25")).to_have_accessible_name("Friday, December 25, 2026 · in the calendar")
    assert client.calendars.get("changed.twice").dates == ["2026-12-25"]


def test_who_may_not_change_calendars_sees_them(browser: Browser, dev: Dev, client: rota.Client) -> None:
    client.calendars.put("seen.only", {"dates": ["2026-12-24"]})
    secret = client.tokens.create("looks at calendars", role="operator").secret
    with a_visitor(browser, dev.url) as viewer:
        viewer.log_in(secret)
        page = viewer.page
        viewer.go("/calendars")
        expect(page.locator("[data-calendar='seen.only']")).to_be_visible()
        expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
        viewer.go("/calendars/seen.only?year=2026")
        expect(page.get_by_role("img", name="Thursday, December 24, 2026 · in the calendar")).to_be_visible()
        for button in ("Edit", "Delete", "Save"):
            expect(page.get_by_role("main").get_by_role("button", name=button)).to_have_count(0)
        expect(page.get_by_test_id("year").get_by_role("button")).to_have_count(0)
        assert viewer.complaints == []


def test_calendars_are_reached_from_the_form_of_a_schedule_and_by_the_palette(
    visitor: Visitor, client: rota.Client
) -> None:
    client.calendars.put("reached.days", {"dates": ["2026-12-24"]})
    page = visitor.page
    visitor.go("/task-configs/+new")
    page.get_by_text("cron", exact=True).click()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="See and edit the calendars").click()
    expect(opened.value.locator("[data-calendar='reached.days']")).to_be_visible()
    opened.value.keyboard.press("Control+k")
    opened.value.get_by_role("combobox", name="Search").fill("calend")
    expect(opened.value.get_by_role("listbox").get_by_role("option").first).to_have_text("Calendars")
