"""systemd timers: `OnCalendar` as cron, the monotonic ones as paces.

A timer does not start what still runs, so that overlapping runs are skipped; `Persistent` makes up for one that was
missed. In systemd a weekday and a day of the month must both fit, which is no crontab: that is not translated.
"""

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from rota.interfaces.cli.imports.translation import NO_LIMIT, Translation, type_of

_SHORT = {
    "minutely": "* * * * *", "hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": "0 0 * * 1",
    "monthly": "0 0 1 * *", "yearly": "0 0 1 1 *", "annually": "0 0 1 1 *",
    "quarterly": "0 0 1 1,4,7,10 *", "semiannually": "0 0 1 1,7 *",
}  # fmt: skip
_DATE = re.compile(r"(?:(?P<year>[^-\s]+)-)?(?P<month>[^-~\s]+)(?P<sign>[-~])(?P<day>[^-~\s]+)")
_MOMENT = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?: +\d{1,2}:\d{2}(?::\d{2})?)?")  # one that comes once
_TIME = re.compile(r"(?P<hour>[^:\s]+):(?P<minute>[^:\s]+)(?::(?P<second>[^:\s]+))?")
_FIELD = re.compile(r"(\*|\d+(\.\.\d+)?)(/\d+)?(,(\*|\d+(\.\.\d+)?)(/\d+)?)*")
_WEEKDAYS = re.compile(r"[A-Za-z]{3,9}((\.\.|-|,)[A-Za-z]{3,9})*", re.ASCII)
_WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_UNITS = {  # as systemd spells them: m is a minute, and M a month
    "us": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3,
    "": 1, "s": 1, "sec": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hour": 3600, "hours": 3600, "d": 86_400, "day": 86_400, "days": 86_400,
    "w": 604_800, "week": 604_800, "weeks": 604_800, "M": 2_629_800, "month": 2_629_800, "months": 2_629_800,
    "y": 31_557_600, "year": 31_557_600, "years": 31_557_600,
}  # fmt: skip
_SINCE_START = ("OnBootSec", "OnStartupSec", "OnActiveSec")
_OF_TIMERS = ("Unit", "Persistent", "RandomizedDelaySec", "AccuracySec")
_OF_SERVICES = (
    "ExecStart",
    "Environment",
    "WorkingDirectory",
    "Type",
    "Restart",
    "TimeoutSec",
    "TimeoutStartSec",
    "RuntimeMaxSec",
)
_OF_ALL = (
    "Description",
    "Documentation",
    "After",
    "Before",
    "Wants",
    "WantedBy",
    "Alias",
    "Also",
)  # say nothing of runs
_SPECIFIER = re.compile(r"%(.)")
_VARIABLE = re.compile(r"\$\w+", re.ASCII)  # if it is a word of its own
_BRACED = re.compile(r"(?<!\$)(\$\{\w+\})", re.ASCII)
_PREFIXES = "@-:+!|"  # before a command: how systemd is to run it
_QUOTED = re.compile(r'"([^"]*)"' r"|'([^']*)'")
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")
_SEMICOLON = "\\;"  # no end of a command, but a word of it
Unit = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command:
    """One of a service, for a shell."""

    text: str
    may_fail: bool  # and others follow all the same
    left_out: str = ""  # of what stands before it: how systemd is to run it
    is_raw: bool = False


class UntranslatableError(Exception):
    """What it says has no counterpart."""


def read_timers(files: Mapping[str, str], *, zone: str) -> Translation:
    """Unit files by name: timers, and the services that they start."""
    found = Translation()
    units = {name: _read_unit(text) for name, text in files.items()}
    timers = {name: unit for name, unit in units.items() if name.endswith(".timer")}
    if not timers:
        found.note("systemd", "there is no .timer file")
    for name, unit in sorted(timers.items()):
        service = (unit.get("Unit") or [f"{name.removesuffix('.timer')}.service"])[-1]
        schedules = _read_schedules(found, name, unit=unit, zone=zone)
        if not schedules:
            found.note(name, "not translated: says no time that repeats")
            continue
        if name.endswith("@.timer"):
            found.note(name, "is a template, and became one type: make one of it for each instance that is enabled")
        about = _resolve(found, name, key="Description", given=_last(unit, "Description"))
        runs = _read_service(found, service, unit=units.get(service))
        for schedule in schedules:
            told = {"type": type_of(name.removesuffix(".timer")), "description": about or f"from {name}"}
            found.add(name, {**told, **runs}, schedule=schedule)
    return found


def _resolve(found: Translation, name: str, *, key: str, given: str) -> str:
    """The text without the escapes of systemd; what it puts in place of the other specifiers is not known here."""
    if others := dict.fromkeys(one[0] for one in _SPECIFIER.finditer(given) if one[1] != "%"):
        found.note(
            name, f"{key} has {', '.join(others)}, which systemd replaces and Rota does not: write what it means"
        )
    return _SPECIFIER.sub(lambda one: "%" if one[1] == "%" else one[0], given)


def _read_schedules(found: Translation, name: str, *, unit: Unit, zone: str) -> list[dict[str, Any]]:
    """One for each of its times; what is no time here is noted, and keeps none of the others back."""
    shared: dict[str, Any] = {"on_missed": "run_once" if _is_true(_last(unit, "Persistent")) else "skip"}
    schedules: list[dict[str, Any]] = []
    for key, read in _TIMES.items():
        for given in unit.get(key, []):
            try:
                schedules.append({**read(given, zone), **shared})
            except UntranslatableError as error:
                found.note(name, f"{key}={given} is not translated: {error}")
    try:
        if delay := _seconds(_last(unit, "RandomizedDelaySec")):
            schedules = [{**one, "jitter_seconds": delay} for one in schedules]
    except UntranslatableError as error:
        found.note(name, f"RandomizedDelaySec is left out: {error}")
    for key in _SINCE_START:
        if key in unit:
            found.note(name, f"{key} is counted from a start of the machine and left out")
    _note_rest(found, name, unit=unit, known=(*_TIMES, *_SINCE_START, *_OF_TIMERS))
    if any("at" in one for one in schedules):
        found.note(name, "fires once: take it out if its time has passed, since it is refused then")
    if len(schedules) > 1:
        found.note(name, f"has {len(schedules)} times: each is a type of its own, and does not wait for the others")
    return schedules


def _read_service(found: Translation, name: str, *, unit: Unit | None) -> dict[str, Any]:
    """What runs, for how long and how often."""
    runs: dict[str, Any] = {"executor": {"type": "local"}, "retry": {"max_retries": 0}, "payload": {}}
    if unit is None:
        found.note(name, "is not among the files: its command is missing in the payload, and so is its time limit")
        return runs
    if command := _read_commands(found, name, given=unit.get("ExecStart", [])):
        runs["payload"]["command"] = _in_folder(found, name, unit=unit) + _resolve(
            found, name, key="ExecStart", given=command
        )
    else:
        found.note(name, "has no ExecStart: its command is missing in the payload")
    if environment := _read_environment(found, name, unit=unit):
        runs["payload"]["env"] = environment
    if timeout := _find_limit(found, name, unit=unit):
        runs["timeout_seconds"] = timeout
    else:
        found.note(name, NO_LIMIT)
    if _last(unit, "Restart") not in ("", "no"):
        found.note(name, f"Restart={_last(unit, 'Restart')} is left out: nothing is tried again; give retry")
    _note_rest(found, name, unit=unit, known=_OF_SERVICES)
    return runs


def _in_folder(found: Translation, name: str, *, unit: Unit) -> str:
    """What goes before a command, so that it runs where the service does."""
    given = _resolve(found, name, key="WorkingDirectory", given=_last(unit, "WorkingDirectory"))
    folder = given.removeprefix("-")
    if not folder:
        return ""
    change = f"cd {folder if folder == '~' else shlex.quote(folder)}"
    return f"{{ {change} || true; }} && " if given != folder else f"{change} && "


def _read_environment(found: Translation, name: str, *, unit: Unit) -> dict[str, str]:
    """The variables of all lines; of one that is there twice, the last."""
    variables: dict[str, str] = {}
    for line in unit.get("Environment", []):
        try:
            words = shlex.split(_resolve(found, name, key="Environment", given=line))
        except ValueError as error:
            found.note(name, f"Environment={line} is left out: {error}")
            continue
        variables |= {key: value for key, equals, value in (word.partition("=") for word in words) if equals}
    return variables


def _read_commands(found: Translation, name: str, *, given: Sequence[str]) -> str:
    """All of them as one for a shell: each is run if those before it succeed, or may fail."""
    commands = [command for line in given for command in _list_commands(line)]
    if not commands:
        return ""
    if len(given) > 1:
        found.note(name, f"has {len(given)} ExecStart: they are one command, with && between them, for a shell")
    *before, last = commands
    left_out = "".join(one.left_out for one in commands) + "-" * last.may_fail
    if left_out:
        signs = " ".join(sign for sign in _PREFIXES if sign in left_out)
        found.note(name, f"what stands before a command in ExecStart is left out: {signs}")
    if any(one.is_raw for one in commands):
        found.note(
            name, "ExecStart has a backslash, which a shell reads otherwise: it is left as it is, write what it means"
        )
    return " && ".join([*(f"{{ {one.text} || true; }}" if one.may_fail else one.text for one in before), last.text])


def _list_commands(line: str) -> list[_Command]:
    """Those of one ExecStart, between which a `;` stands alone."""
    words = _WORD.findall(line)
    is_raw = any("\\" in word and word != _SEMICOLON for word in words)
    if is_raw or re.search("[\"']", _QUOTED.sub("", line)):  # a quote without an end is nothing to systemd either
        text = line.lstrip(_PREFIXES)
        signs = line[: len(line) - len(text)]
        return [_Command(text=text, may_fail="-" in signs, left_out=signs.replace("-", ""), is_raw=is_raw)]
    commands: list[list[str]] = [[]]
    for word in words:
        if word == ";":
            commands.append([])
        else:
            commands[-1].append(";" if word == _SEMICOLON else _QUOTED.sub(lambda one: one[1] or one[2] or "", word))
    return [_for_shell(command) for command in commands if command]


def _for_shell(words: Sequence[str]) -> _Command:
    """The same for a shell: systemd runs none, so that what a shell would take for its own is quoted."""
    program = words[0].lstrip(_PREFIXES)
    signs = words[0][: len(words[0]) - len(program)]
    given = words[2:] if "@" in signs else words[1:]  # after it stands what the program is to call itself
    quote = shlex.quote if ":" in signs else _quoted  # then nothing is a variable
    text = " ".join(quote(word) for word in (program, *given))
    return _Command(text=text, may_fail="-" in signs, left_out=re.sub("[-@:]", "", signs))


def _quoted(word: str) -> str:
    """`$NAME` is a variable if it is the whole word, `${NAME}` is one anywhere, and `$$` is a dollar."""
    if _VARIABLE.fullmatch(word):
        return word
    parts = [part for part in _BRACED.split(word) if part]
    quoted = (f'"{part}"' if _BRACED.fullmatch(part) else shlex.quote(part.replace("$$", "$")) for part in parts)
    return "".join(quoted) or "''"


def _find_limit(found: Translation, name: str, *, unit: Unit) -> float:
    """How long a run may take: what starts once is being started all the time; 0: no limit is set."""
    keys = ("TimeoutSec", "TimeoutStartSec") if _last(unit, "Type") == "oneshot" else ("RuntimeMaxSec",)
    given = next((_last(unit, key) for key in reversed(keys) if key in unit), "infinity")
    try:
        return 0.0 if given == "infinity" else _seconds(given)
    except UntranslatableError as error:
        found.note(name, f"its time limit is left out: {error}")
        return 0.0


def _note_rest(found: Translation, name: str, *, unit: Unit, known: Sequence[str]) -> None:
    if rest := [f"{key}=" for key in unit if key not in (*known, *_OF_ALL)]:
        found.note(name, f"left out: {', '.join(rest)}")


def _calendar(given: str, zone: str) -> dict[str, Any]:
    words = given.split()
    if words[-1] in available_timezones():
        zone = words.pop()
    text = " ".join(words)
    if text.lower() in _SHORT:
        return {"cron": _SHORT[text.lower()], "zone": zone}
    if moment := _MOMENT.fullmatch(text):
        return _once(moment, zone, whole=given)
    weekday, month, day, clock = "*", "*", "*", ["0", "0", "0"]
    for word in words:
        if (date := _DATE.fullmatch(word)) and ":" not in word and not _WEEKDAYS.fullmatch(word):
            if date["year"] not in (None, "*"):
                raise UntranslatableError(f"{given!r} names a year")
            read = _field if date["sign"] == "-" else _from_end
            month, day = _field(date["month"], given), read(date["day"], given)
        elif time := _TIME.fullmatch(word):
            clock = [_field(time[name] or "0", given) for name in ("second", "minute", "hour")]
        elif _WEEKDAYS.fullmatch(word):
            weekday = ",".join(_days(part, given) for part in word.split(","))
        else:
            raise UntranslatableError(f"{given!r} has {word!r}, which is no part of cron")
    if weekday != "*" and day != "*":
        raise UntranslatableError(f"{given!r} needs a weekday and a day of the month at once")
    return {"cron": " ".join([*clock, day, month, weekday]), "zone": zone}


def _once(moment: re.Match[str], zone: str, *, whole: str) -> dict[str, Any]:
    """A time that comes once, on the clock of the zone."""
    year, month, day, *clock = map(int, re.findall(r"\d+", moment[0]))
    hour, minute, second = (*clock, 0, 0, 0)[:3]
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=ZoneInfo(zone))
    except ValueError as error:
        raise UntranslatableError(f"{whole!r} is no time: {error}") from error
    return {"at": [at.isoformat()], "zone": zone}


def _from_end(given: str, whole: str) -> str:
    """Days counted from the last one of the month, which is 1."""
    places = given.split(",")
    if not all(place.isascii() and place.isdigit() and 1 <= int(place) <= 31 for place in places):
        raise UntranslatableError(f"{whole!r} has '~{given}', which is no part of cron")
    return ",".join("L" if int(place) == 1 else f"L-{int(place) - 1}" for place in places)


def _days(given: str, whole: str) -> str:
    """A weekday, or a range of them: `..`, or `-` as it was written once and still may be."""
    first, *others = (name[:3].capitalize() for name in re.split(r"\.\.|-", given))
    if not others:
        return first
    last = others[-1]
    if len(others) > 1 or not {first, last} <= set(_WEEK) or _WEEK.index(first) > _WEEK.index(last):
        raise UntranslatableError(f"{whole!r} has {given!r}, which is no range of weekdays")
    return f"{first}-{'7' if last == 'Sun' else last}"  # Sunday ends the week here, and begins it in crontab


def _field(given: str, whole: str) -> str:
    if not _FIELD.fullmatch(given):
        raise UntranslatableError(f"{whole!r} has {given!r}, which is no part of cron")
    return ",".join(str(part) for part in given.replace("..", "-").split(","))


def _pace(given: str, _: str) -> dict[str, Any]:
    return {"every_seconds": _seconds(given)}


def _delay(given: str, _: str) -> dict[str, Any]:
    return {"after_end_seconds": _seconds(given)}


def _seconds(given: str) -> float:
    total, rest = 0.0, given.strip()
    while rest:
        part = _SPAN.match(rest)
        if part is None or part[2] not in _UNITS:
            raise UntranslatableError(f"{given!r} is no span of time that is known here")
        total += float(part[1]) * _UNITS[part[2]]
        rest = rest[part.end() :].strip()
    return total


def _read_unit(text: str) -> Unit:
    """All values of each key; sections do not matter here, and an empty value forgets those before it."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in text.replace("\\\n", " ").splitlines():
        name, equals, value = line.partition("=")
        if not equals or line.lstrip().startswith(("#", ";", "[")):
            continue
        if value.strip():
            found[name.strip()].append(value.strip())
        else:
            found.pop(name.strip(), None)
    return found


def _last(unit: Unit, key: str) -> str:
    return (unit.get(key) or [""])[-1]


def _is_true(value: str) -> bool:
    return value.lower() in ("1", "yes", "true", "on")


_TIMES: Mapping[str, Callable[[str, str], dict[str, Any]]] = {
    "OnCalendar": _calendar,
    "OnUnitActiveSec": _pace,
    "OnUnitInactiveSec": _delay,
}
