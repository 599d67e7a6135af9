"""What can be asked of `make chaos`, and that the page of guarantees calls it by the same names."""

import re
from pathlib import Path

import pytest

from tests.chaos.__main__ import PARTS, list_names, parse
from tests.chaos.catalogue import FAULTS, describe_terrains
from tests.chaos.terrain import TERRAINS

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "guarantees.md"
MARK = "<!-- tests/chaos/catalogue.py -->"
ROW = re.compile(r"^\| `(.+)` \| (.+) \| (.*) \| (.+) \| (.+) \| .+ \|$", re.MULTILINE)


def test_the_page_of_guarantees_names_the_faults_as_they_are_typed_with_their_bounds() -> None:
    table = PAGE.read_text("utf-8").split(MARK)[1].split("\n\n")[1]
    assert ROW.findall(table) == [
        (
            fault.name,
            describe_terrains(fault),
            f"{fault.held_s:g}" if fault.held_s else "",
            f"{fault.bound_s:g}",
            fault.since,
        )
        for fault in FAULTS
    ]


def test_every_name_that_is_listed_can_be_asked_for() -> None:
    names = [line.split("  ")[0].strip() for line in list_names().splitlines()]
    assert names == [fault.name for fault in FAULTS]
    for name in names:
        assert parse(["--fault", name]).parts == ["faults"]


def test_without_a_word_everything_is_asked_for() -> None:
    asked = parse([])
    assert (asked.parts, asked.terrains) == (list(PARTS), list(TERRAINS))


def test_a_fault_is_brought_only_where_it_can_happen() -> None:
    assert [terrain.name for terrain in parse(["--fault", "etcd: member out of reach"]).terrains] == ["etcd"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fault"], "no such part: fault"),
        (["--fault", "Redis: FLUSHALL", "--terrain", "etcd"], "what can: redis+mariadb, redis+postgres"),
        (["--fault", "Redis: FLUSHALL", "--fault", "etcd: member out of reach"], "what can: nowhere at once"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(words)
    assert told in capsys.readouterr().err


def test_the_page_of_guarantees_says_which_setups_are_hurt() -> None:
    table = PAGE.read_text("utf-8").split("<!-- tests/chaos/terrain.py -->")[1].split("\n\n")[1]
    named = [row.split(" | ")[4] for row in table.splitlines()[2:]]
    assert [name.strip("`") for name in named if re.fullmatch("`.+`", name)] == [one.name for one in TERRAINS]
