"""`rota calendar`: the days that schedules keep to, or keep out of."""

from datetime import date
from typing import Any

import click

from rota.domain.errors import InvalidError
from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.filters import in_options
from rota.interfaces.cli.input import read_text
from rota.interfaces.cli.output import confirm, output_option, show_list, show_one
from rota.interfaces.cli.tables import CALENDARS
from rota.interfaces.cli.text import safe

MOST_BYTES = 1024**2
TOLD_ONLY = ("name", "tenant", "origin", "created_at", "updated_at")  # in what `get` shows, which can be put again

FIELDS = """\
\b
A file, in YAML or JSON, of which every part may be left out:
  description: When the office is closed
  dates: ["2026-12-24", "2026-12-31"]
  windows: [{weekdays: [6, 7]}, {begin: "22:00", end: "06:00"}]
  periods: [{begin: "2026-12-20T00:00:00Z", end: "2027-01-05T00:00:00Z"}]
  business_days: {weekdays: [1, 2, 3, 4, 5], holidays: [], workdays: []}
  years: [2026, 2028]

\b
Times are those of the schedule's zone, weekdays go from 1, Monday, to 7.
years are the first and the last that it knows about: in others nothing fires.
"""


@click.group()
def calendar() -> None:
    """Define calendars for schedules to keep to, or out of.

    Schedules name them in `only` and `exclude`.
    """


@calendar.command(epilog=FIELDS)
@click.argument("name")
@click.option("-f", "--file", metavar="FILE|-", help="The calendar, in YAML or JSON.")
@click.option("--country", metavar="CODE", help="Add the days of a country, such as CN; needs rota[calendars] there.")
@click.option("--subdivision", metavar="CODE", help="Of a part of it, such as BY.")
@click.option("--holidays", is_flag=True, help="Of the country its holidays, not its business days.")
@click.option("--years", metavar="FIRST-LAST", help="Of the country.  [default: last year to next year, if announced]")
@click.option("--ics", metavar="FILE|-", help="Add the events of an iCalendar file.")
@server_option
def put(name: str, *, url: str | None, **given: Any) -> None:
    """Create or replace a calendar; schedules that name it follow."""
    wanted = {} if given["file"] is None else _read_file(given["file"])
    wanted |= {key: given[key] for key in ("country", "subdivision") if given[key] is not None}
    if given["holidays"]:
        wanted["country_days"] = "holidays"
    if given["years"] is not None:
        wanted["first_year"], wanted["last_year"] = _read_years(given["years"])
    if given["ics"] is not None:
        wanted["ics"] = read_text("--ics", given["ics"], most=MOST_BYTES)
    if not wanted and given["file"] is not None:
        raise InvalidError("--file", f"{given['file']} has none of the parts of a calendar, such as dates")
    if not wanted:
        raise click.UsageError("Give --file, --country or --ics: they say what is in the calendar.")
    with connect(url) as client, in_options(dict.fromkeys(("first_year", "last_year"), "--years")):
        stored = client.calendars.put(name, wanted)
    known = f" and knows the years {'-'.join(map(str, stored.years))}: in others nothing fires with it"
    click.echo(f"{stored.name} is at revision {stored.revision}{known if stored.years else ''}")


@calendar.command()
@output_option
@watch_option
@server_option
def ls(output: str, *, watch: bool, url: str | None) -> None:
    """List the calendars."""
    with connect(url) as client:
        repeat(lambda: show_list(client.calendars.list(), CALENDARS, output=output), watch=watch)


@calendar.command()
@click.argument("name")
@output_option
@server_option
def get(name: str, output: str, *, url: str | None) -> None:
    """Show a calendar; with -o yaml its days, as `put -f` reads them."""
    with connect(url) as client:
        show_one(client.calendars.get(name), CALENDARS, output=output)


@calendar.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@server_option
def rm(name: str, *, yes: bool, url: str | None) -> None:
    """Delete a calendar that no schedule names."""
    if not yes:
        confirm(f"delete the calendar {safe(name)}?")
    with connect(url) as client:
        client.calendars.delete(name)
    click.echo(f"{safe(name)} is deleted")


def _read_years(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    try:
        return int(first), int(last or first)
    except ValueError as exc:
        raise InvalidError("--years", f"{text!r} is not a year, or the first and the last: 2026-2028") from exc


def _read_file(file: str) -> dict[str, Any]:
    import yaml

    text = read_text("--file", file, most=MOST_BYTES)
    try:
        found = _plain(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError, RecursionError) as exc:  # also a date that is none
        raise InvalidError("--file", f"{file} is not YAML: {exc}") from exc
    if not isinstance(found, dict):
        raise InvalidError("--file", f"{file} is no calendar: it must have keys such as dates")
    return {key: value for key, value in found.items() if key not in TOLD_ONLY}


def _plain(found: Any) -> Any:
    """What YAML takes for a day or a time, as the text that it was."""
    if isinstance(found, dict):
        return {key: _plain(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_plain(value) for value in found]
    return found.isoformat() if isinstance(found, date) else found
