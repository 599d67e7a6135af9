"""What the programs of the benchmark take from their command lines."""

import importlib
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest

from bench.options import parser_of, within

REFUSED = (
    "latency --tasks 0",
    "latency --tasks -1",
    "latency --load 0",
    "growth --rounds 0",
    "growth --tasks 300",  # one batch: no rate
    "growth --tasks 3001",  # more than three workers hold
    "end_to_end --tasks 0",
    "end_to_end --rounds 0",
    "api --connections 0",
    "api --seconds 0",
    "api --batch 100000",
    "grpc_api --batch 0",
    "store --tasks 0",
    "console --millions 0",
    "resources --tasks 10",
    "firing --schedules 0",
    "cron --rounds 0",
    "topologies nowhere",
    "suite --only machine --without machine",
)


@pytest.mark.parametrize("command", REFUSED)
def test_a_value_that_measures_nothing_is_refused_before_anything_is_started(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *arguments = command.split()
    program = importlib.import_module(f"bench.{name}")
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    takes_arguments = program.main.__code__.co_argcount
    with pytest.raises(SystemExit, match="2"):
        program.main(arguments) if takes_arguments else program.main()
    assert f"{name}: error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("read", "text", "told"),
    [
        (within(1), "0", "must be at least 1, not 0"),
        (within(1, 10_000), "10001", "must be from 1 to 10,000, not 10001"),
        (within(0.1), "nan", "must be at least 0.1, not nan"),
        (within(0.1), "inf", "must be at least 0.1, not inf"),
    ],
)
def test_a_number_out_of_its_range_is_refused_with_the_range(
    read: Callable[[str], float], text: str, told: str
) -> None:
    with pytest.raises(ArgumentTypeError, match=told):
        read(text)


def test_a_number_in_its_range_is_of_the_kind_of_the_least() -> None:
    assert [within(1, 3)("3"), within(0.5)("1")] == [3, 1.0]
    assert isinstance(within(0.5)("1"), float)


def test_what_is_no_number_is_told_by_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    parser = parser_of("What it does.")
    parser.add_argument("--rounds", type=within(1))
    with pytest.raises(SystemExit):
        parser.parse_args(["--rounds", "many"])
    assert "invalid int value: 'many'" in capsys.readouterr().err
