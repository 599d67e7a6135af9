"""What every program of the benchmark says of itself with `--help`: all of its docstring, and each option's default."""

import argparse
from collections.abc import Callable
from math import inf
from typing import TypeVar

T = TypeVar("T", int, float)


class _Format(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


def parser_of(docstring: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=docstring, formatter_class=_Format)


def within(least: T, most: float = inf) -> Callable[[str], T]:
    """The type of an option that is a number of this kind, not below the least and not above the most."""
    kind = type(least)

    def read(text: str) -> T:
        value = kind(text)
        if not least <= value <= most or value == inf:  # nor what is no number
            bounds = f"at least {least:,}" if most == inf else f"from {least:,} to {most:,}"
            raise argparse.ArgumentTypeError(f"must be {bounds}, not {text}")
        return value

    read.__name__ = kind.__name__  # argparse tells it where it is no number
    return read
