"""The program `rota`: every command has its name here, and is written in a module of its own."""

import sys
from collections.abc import Sequence

import click

from rota.__about__ import __version__
from rota.domain.errors import RotaError
from rota.interfaces.cli.errors import FAILURE, OK, report, report_usage
from rota.interfaces.cli.lazy import LazyGroup
from rota.interfaces.cli.typed import Typed

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
    "top": f"{HERE}.top",
    "events": f"{HERE}.events",
    "token": f"{HERE}.token",
    "audit": f"{HERE}.audit",
    "settings": f"{HERE}.settings",
    "db": f"{HERE}.db",
    "doctor": f"{HERE}.doctor",
    "bench": f"{HERE}.bench",
    "completion": f"{HERE}.completion",
}


@click.group(cls=LazyGroup, places=PLACES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="rota %(version)s", help="Print the version.")
def cli() -> None:
    """Rota, a distributed task scheduler.

    Commands that ask a server find it by ROTA_URL and show it ROTA_TOKEN. Exit codes: 0 ok, 1 failure, 2 usage,
    3 not found, 4 conflict, 5 unavailable, 6 denied.
    """


@cli.command()
def version() -> None:
    """Print the version."""
    click.echo(f"rota {__version__}")


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    try:
        code = cli.main(list(arguments), prog_name="rota", standalone_mode=False)
    except RotaError as error:
        return report(error, _typed(arguments))
    except click.ClickException as error:
        return report_usage(error, _typed(arguments))
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return FAILURE
    return code if isinstance(code, int) else OK


def _typed(arguments: Sequence[str]) -> Typed:
    """Which command it was, to name it in what is said about it."""
    context = click.Context(cli)
    command: click.Command = cli
    path, words = ["rota"], [word for word in arguments if not word.startswith("-")]
    while words and isinstance(command, click.Group):
        inner = command.get_command(context, words[0])
        if inner is None:
            break
        path.append(words.pop(0))
        command = inner
    ids = [word for word in words if word.isdigit()]  # the longest: a number may also be the value of an option
    return Typed(" ".join(path), max(ids, key=len, default=words[0] if words else ""), tuple(arguments))


if __name__ == "__main__":
    main()
