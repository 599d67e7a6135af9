"""The program `rota`: every command is added here and written in a module of its own."""

import sys
from collections.abc import Sequence

import click

from rota.__about__ import __version__
from rota.domain.errors import RotaError
from rota.interfaces.cli.db import db
from rota.interfaces.cli.errors import FAILURE, OK, report, report_usage
from rota.interfaces.cli.run import api, scheduler, server, worker
from rota.interfaces.cli.settings import settings


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Rota, a distributed task scheduler."""


@cli.command()
def version() -> None:
    """Print the version."""
    click.echo(f"rota {__version__}")


for command in (server, api, scheduler, worker, settings, db):
    cli.add_command(command)


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    try:
        code = cli.main(list(arguments), prog_name="rota", standalone_mode=False)
    except RotaError as error:
        return report(error)
    except click.ClickException as error:
        return report_usage(error)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return FAILURE
    return code if isinstance(code, int) else OK


if __name__ == "__main__":
    main()
