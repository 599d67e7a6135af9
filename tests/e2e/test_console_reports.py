"""The page of reports in a real browser."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Route, expect

import rota
from tests.support.cluster import wait_until
from tests.support.console import Dev, Visitor
from tests.support.reports import a_report

pytestmark = pytest.mark.timeout(240)


def test_a_report_is_a_chart_and_tables_whose_choices_are_in_the_address(visitor: Visitor) -> None:
    page, asked = visitor.page, list[dict[str, list[str]]]()

    def answer(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        asked.append(query)
        report = a_report(by=query["by"][0], zone=query["zone"][0])
        if "task_type" in query:
            report["items"] = [one for one in report["items"] if one["type"] in query["task_type"]]
            report["types"] = [one for one in report["types"] if one["type"] in query["task_type"]]
        route.fulfill(status=200, content_type="application/json", body=json.dumps(report))

    page.route("**/api/v1/reports?*", answer)
    visitor.go("/reports")
    chart, told = page.get_by_role("img", name="Tasks that ended"), page.locator(".u-value")
    expect(chart.locator("canvas")).to_be_visible()
    expect(told.last).to_be_hidden()
    chart.hover()
    expect(told.last).to_be_visible()
    rows = page.get_by_test_id("report-types").locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("shop.greet")
    expect(page.get_by_test_id("report-pieces").locator("tbody tr")).to_have_count(7)
    page.get_by_text("24 hours").click()
    expect(page.get_by_role("heading", name="By hour")).to_be_visible()
    assert "range=24h" in page.url
    assert asked[-1]["by"] == ["hour"]
    page.get_by_role("button", name="Only shop.charge").click()
    expect(rows).to_have_count(1)
    assert asked[-1]["task_type"] == ["shop.charge"]
    page.get_by_role("button", name="back to all types").click()
    expect(rows).to_have_count(3)
    visitor.go("/reports?range=365d&zone=Asia/Shanghai")
    expect(page.get_by_label("Time zone")).to_be_disabled()
    expect(page.get_by_label("Time zone")).to_have_value("UTC")


def test_where_nothing_happened_it_says_what_to_type(visitor: Visitor) -> None:
    visitor.go("/reports?type=no.such.type")
    empty = visitor.page.get_by_test_id("empty").filter(has_text="rota task submit sample_hello --wait")
    expect(empty).to_be_visible()


@pytest.mark.slow  # tasks are counted when they have settled, after a quarter of a minute
def test_what_ran_is_in_the_report_and_in_its_file(visitor: Visitor, dev: Dev) -> None:
    with rota.Client(dev.url, dev.token) as client:
        client.submit("shop.greet", {"name": "Ada"}).wait("30s")
        wait_until(
            lambda: any(one.type == "shop.greet" and one.succeeded for one in client.report().types),
            "the report to have it",
        )
    page = visitor.page
    visitor.go("/reports")
    expect(page.get_by_test_id("report-types")).to_contain_text("shop.greet")
    expect(page.get_by_test_id("report-pieces").locator("tbody tr")).to_have_count(7)  # today among them
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    lines = download.value.path().read_text("utf-8").splitlines()
    assert lines[0].startswith("start,end,type,submitted")
    assert any(",shop.greet," in line for line in lines[1:])
