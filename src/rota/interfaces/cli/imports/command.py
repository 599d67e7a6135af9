"""`rota import`: definitions made of the schedules of other programs."""

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from rota.domain.checks import check_zone
from rota.domain.errors import InvalidError
from rota.interfaces.cli.errors import FAILURE
from rota.interfaces.cli.imports.translation import Translation
from rota.interfaces.cli.input import read_text
from rota.interfaces.cli.text import safe

MOST_BYTES = 64 * 1024**2

out_option = click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="A new file.  [default: standard output]"
)
zone_option = click.option("--zone", default="UTC", show_default=True, help="The zone of the machine they ran on.")
function_option = click.option("--function", metavar="MODULE:NAME", help="What runs them, in all definitions.")
Options = Callable[[Callable[..., None]], Callable[..., None]]


def shared_options(command: Callable[..., None]) -> Callable[..., None]:
    return out_option(zone_option(function_option(command)))


@click.group(name="import")
def import_() -> None:
    """Turn schedules of other programs into definitions.

    They are for `rota config-type apply`, and are printed or written to a file; nothing is applied. What could not be
    translated is told on the standard error output. Where nothing could, it fails.
    """


@import_.command()
@click.argument("file")
@click.option("--system", is_flag=True, help="Lines have a user before the command, as in /etc/crontab.")
@shared_options
def crontab(file: str, *, system: bool, zone: str, function: str | None, out: Path | None) -> None:
    """Read a crontab FILE, or - for what `crontab -l` prints."""
    from rota.interfaces.cli.imports.crontab import read_crontab

    found = read_crontab(_read(file), zone=check_zone("--zone", zone), has_user=system, place=file)
    _write(found, function=function, out=out)


@import_.command()
@click.argument("files", nargs=-1, required=True)
@shared_options
def systemd(files: Sequence[str], *, zone: str, function: str | None, out: Path | None) -> None:
    """Read FILES of units: timers and their services.

    A folder stands for all files in it.
    """
    from rota.interfaces.cli.imports.systemd import read_timers

    paths = [path for file in files for path in _unit_files(Path(file))]
    found = read_timers({path.name: _read(str(path)) for path in paths}, zone=check_zone("--zone", zone))
    _write(found, function=function, out=out)


@import_.command(name="celery-beat")
@click.argument("file")
@shared_options
def celery_beat(file: str, *, zone: str, function: str | None, out: Path | None) -> None:
    """Read the beat_schedule in a Python FILE, and do not run it."""
    from rota.interfaces.cli.imports.celery_beat import read_beat

    _write(read_beat(_read(file), zone=check_zone("--zone", zone), place=file), function=function, out=out)


@import_.command(name="xxl-job")
@click.argument("file")
@shared_options
def xxl_job(file: str, *, zone: str, function: str | None, out: Path | None) -> None:
    """Read the table xxl_job_info in a FILE.

    It is CSV with a header, or a dump in SQL.
    """
    from rota.config import clock
    from rota.interfaces.cli.imports.xxl_job import read_jobs

    found = read_jobs(_read(file), zone=check_zone("--zone", zone), now=clock.now(), place=file)
    _write(found, function=function, out=out)


def _unit_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(one for one in path.iterdir() if one.suffix in (".timer", ".service"))


def _read(file: str) -> str:
    return read_text("FILE", file, most=MOST_BYTES)


def _write(found: Translation, *, function: str | None, out: Path | None) -> None:
    import yaml

    if function is not None:
        for definition in found.definitions:
            definition["executor"] = {"type": "local", "function": function}
    text = yaml.safe_dump_all(found.definitions, sort_keys=False, allow_unicode=True) if found.definitions else ""
    if out is None:
        click.echo(text, nl=False)
    else:
        try:
            with out.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as exc:
            raise InvalidError("--out", f"{out} cannot be made: {exc.strerror}") from exc
    for note in found.notes:
        click.echo(safe(f"{note.place}: {note.text}"), err=True)
    click.echo(f"{_count(found.definitions, 'definition')}, {_count(found.notes, 'note')}", err=True)
    if found.notes and not found.definitions:
        raise click.exceptions.Exit(FAILURE)


def _count(found: Sequence[object], what: str) -> str:
    return f"{len(found)} {what}{'' if len(found) == 1 else 's'}"
