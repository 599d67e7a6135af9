"""What every program of the benchmark says of itself with `--help`: all of its docstring, and each option's default."""

import argparse


class _Format(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


def parser_of(docstring: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=docstring, formatter_class=_Format)
