"""The program `rota`: every command has its name here, and is written in a module of its own."""

import os
import sys
import threading
from collections.abc import Sequence

import click

from rota.__about__ import __version__
from rota.domain.errors import RotaError
from rota.interfaces.cli.errors import FAILURE, OK, report, report_usage
from rota.interfaces.cli.lazy import LazyGroup
from rota.interfaces.cli.typed import read_typed

END_WITHIN_S = 5.0  # of what a command has left behind: threads of tasks, which Python would wait for
HERE = "rota.interfaces.cli"
PLACES = {
    "dev": f"{HERE}.dev",
    "server": f"{HERE}.run",
    "api": f"{HERE}.run",
    "scheduler": f"{HERE}.run",
    "worker": f"{HERE}.worker",
    "task": f"{HERE}.task",
    "config-type": f"{HERE}.config_type",
    "schedule": f"{HERE}.schedule",
    "calendar": f"{HERE}.calendar",
    "import": f"{HERE}.imports.command",
    "queue": f"{HERE}.cluster",
    "cluster": f"{HERE}.cluster",
    "stats": f"{HERE}.cluster",
    "report": f"{HERE}.report",
    "top": f"{HERE}.top",
    "events": f"{HERE}.events",
    "token": f"{HERE}.token",
    "audit": f"{HERE}.audit",
    "settings": f"{HERE}.settings",
    "db": f"{HERE}.db",
    "doctor": f"{HERE}.doctor",
    "health": f"{HERE}.health",
    "bench": f"{HERE}.bench",
    "completion": f"{HERE}.completion",
}


@click.group(cls=LazyGroup, places=PLACES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="rota %(version)s", help="Print the version.")
def cli() -> None:
    """Rota, a distributed task scheduler.

    To look around: rota dev, and in another terminal what it says. Commands that ask a server find it by ROTA_URL and
    show it ROTA_TOKEN; in the folder of a rota dev they need neither. Exit codes: 0 ok, 1 failure, 2 usage,
    3 not found, 4 conflict, 5 unavailable, 6 denied.
    """


@cli.command()
def version() -> None:
    """Print the version."""
    click.echo(f"rota {__version__}")


def main() -> None:
    """The console script."""
    code = FAILURE
    try:
        code = run(sys.argv[1:])
    finally:
        _end_in_time(code)
    sys.exit(code)


def _end_in_time(code: int) -> None:
    """Whatever of user code still runs then, the process ends."""

    def end() -> None:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)

    timer = threading.Timer(END_WITHIN_S, end)
    timer.daemon = True
    timer.start()


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    try:
        code = cli.main(list(arguments), prog_name="rota", standalone_mode=False)
    except RotaError as error:
        return report(error, read_typed(cli, arguments))
    except click.ClickException as error:
        return report_usage(error, read_typed(cli, arguments))
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return FAILURE
    return code if isinstance(code, int) else OK


if __name__ == "__main__":
    main()
