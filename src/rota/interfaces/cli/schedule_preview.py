"""A schedule that is only looked at: read from where it is written, and shown on the clock of its own zone."""

from datetime import datetime, timedelta, tzinfo
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from rota.domain.cron.clock_changes import ClockEffect
from rota.domain.cron.expression import is_spread
from rota.domain.durations import format_duration
from rota.domain.errors import InvalidError
from rota.interfaces.cli.input import read_text
from rota.interfaces.cli.output import show_one
from rota.interfaces.cli.tables import PREVIEWS
from rota.interfaces.cli.text import on_clock, safe

if TYPE_CHECKING:
    from rota.wire.schedule import CalendarEffect, SchedulePreview

OPTION = "--schedule"
MOST_CHARACTERS = 256 * 1024


def read_schedule(text: str | None) -> tuple[dict[str, Any], str]:
    """The schedule that was typed, or is in a file, by itself or in the definition of a type; and that type, if any."""
    import yaml

    if text is None:
        return {}, ""
    if text == "-" or text.startswith("@"):
        text = read_text(OPTION, text.removeprefix("@"), most=MOST_CHARACTERS)
    try:
        read = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise InvalidError(OPTION, "is neither JSON nor YAML of one schedule") from exc
    if isinstance(read, dict) and "schedule" in read:
        return _mapping(read["schedule"]), str(read.get("type", ""))
    return _mapping(read), ""


def _mapping(read: object) -> dict[str, Any]:
    if not isinstance(read, dict):
        raise InvalidError(OPTION, 'must be a schedule such as {"every_seconds": 90}, or a definition that has one')
    return {key: _plain(value) for key, value in read.items()}


def _plain(value: object) -> object:
    """What YAML takes for a time is written out: JSON has none."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value


def show_preview(found: "SchedulePreview", output: str, *, after: datetime | None = None) -> None:
    """In words and in times, and whether these times will come to anything."""
    if output in ("json", "yaml", "name"):
        show_one(found, PREVIEWS, output=output)
        return
    click.echo(safe(found.in_english))
    click.echo(safe(found.in_chinese))
    if told := _tell_state(found):
        click.echo(safe(told))
    zone = ZoneInfo(found.schedule.get("zone", "UTC"))
    for note in _list_notes(found, zone):
        click.echo(note)
    for row in _list_rows(found, zone, before="past" if after is None else "before"):
        click.echo(row)


def _list_notes(found: "SchedulePreview", zone: tzinfo) -> list[str]:
    """What keeps the targets from being the times at which it fires."""
    notes = []
    if not found.type and is_spread(found.schedule.get("cron", "")):
        notes.append("H depends on the type of the tasks: --type TYPE shows its times")
    if jitter := found.schedule.get("jitter_seconds"):
        following = "" if found.next_fire_at is None else f"; next: {on_clock(found.next_fire_at, zone)}"
        notes.append(f"jitter: each fires up to {format_duration(timedelta(seconds=jitter))} later{following}")
    return notes


def _list_rows(found: "SchedulePreview", zone: tzinfo, *, before: str) -> list[str]:
    """The targets, with what became of them, and between them the times that the clocks skip."""
    skipped = [one for one in found.effects if one.effect == ClockEffect.SKIPPED]
    effects = {one.fire_at: _tell_effect(one, zone) for one in found.effects if one not in skipped}
    rows = [(at, f"  {on_clock(at, zone)}  {before}{effects.get(at, '')}") for at in found.recent]
    rows += [(at, f"  {on_clock(at, zone)}{effects.get(at, '')}") for at in found.upcoming]
    gaps = [(one.fire_at, f"  {one.fire_at.astimezone(zone).date()}  {_tell_clocks(one)}") for one in skipped]
    return [row for _, row in sorted(gaps + rows, key=itemgetter(0))]


def _tell_state(found: "SchedulePreview") -> str:
    if found.state == "paused":
        note = found.schedule.get("pause_note")
        way = f"; to go on: rota schedule resume {found.type}" if found.type else ""
        return f"paused{f' ({note})' if note else ''}: nothing fires{way}"
    if found.state == "disabled":
        return f"its type is disabled: nothing fires; to go on: rota config-type resume {found.type}"
    return "has ended: it does not fire any more" if found.state == "ended" else ""


def _tell_effect(effect: "CalendarEffect", zone: tzinfo) -> str:
    if effect.effect in [*ClockEffect]:
        return f"  {_tell_clocks(effect)}"
    origin = "" if effect.moved_from is None else f" from {on_clock(effect.moved_from, zone)}"
    return safe(f"  {effect.effect}{origin}: {effect.detail}")


def _tell_clocks(effect: "CalendarEffect") -> str:
    match effect.effect:
        case ClockEffect.MOVED:
            return safe(f"moved from {effect.detail}: the clocks go forward")
        case ClockEffect.SKIPPED:
            return safe(f"{effect.detail} skipped: the clocks go forward")
        case ClockEffect.FIRST:
            return "the first of two: the clocks go back"
        case _:
            return "the second of two: the clocks go back"
