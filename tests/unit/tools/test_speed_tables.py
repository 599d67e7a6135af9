"""The tables of speed in README and the docs."""

from collections.abc import Callable

import pytest

from tools.speed_tables import Aim, MissingFigureError, Run, at_least, at_most, filled, find_stale

PAGE = "before\n<!-- speed: all, written by tools/speed_tables.py -->\nold\n<!-- end of speed -->\nafter\n"


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    text = filled(PAGE, "all", lines=iter(["new", "lines"]))
    assert text == PAGE.replace("old", "new\nlines")
    assert filled(text, "all", lines=iter(["new", "lines"])) == text


@pytest.mark.parametrize("page", ["no marks", PAGE.replace("end of speed", "end")])
def test_a_page_without_the_marks_is_a_mistake(page: str) -> None:
    with pytest.raises(ValueError, match="no place for the table 'all'"):
        filled(page, "all", lines=iter(["new"]))


def test_a_run_that_lacks_a_figure_is_told_by_its_name_and_with_what_to_do() -> None:
    with pytest.raises(MissingFigureError, match=r"no figure 'redis\+mariadb, both'.* make bench.* git checkout"):
        find_stale(Run({"began_at": "2026-11-19T00:00:00Z", "figures": []}))


def test_a_share_of_what_was_not_measured_is_missing_as_well() -> None:
    figure = {"name": "arq, both", "value": 100, "share": None}
    with pytest.raises(MissingFigureError):
        Run({"began_at": "2026-11-19T00:00:00Z", "figures": [figure]}).share("arq, both")


@pytest.mark.parametrize(
    ("aim", "bar", "verdict"),
    [(at_least, 90, "yes"), (at_least, 101, "**no**"), (at_most, 110, "yes"), (at_most, 99, "**no**")],
)
def test_an_aim_is_held_or_not_by_what_was_measured(aim: Callable[..., Aim], bar: float, verdict: str) -> None:
    run = Run({"began_at": "2026-11-19T00:00:00Z", "figures": [{"name": "rate", "value": 100}]})
    assert aim(bar, "rate", reached=lambda run: run.value("rate")).row(run).endswith(f"| 100 | {verdict} |")
