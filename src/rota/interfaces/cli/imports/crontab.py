"""Crontab files: of a user, or of the system with a column for the user.

`CRON_TZ` is the zone of the lines after it. `TZ` is none: cron hands it to the commands, and keeps to its own times.
What cron does is kept: runs may overlap, what was missed is not made up for, and nothing is tried again.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from rota.interfaces.cli.imports.command_name import name_of_command
from rota.interfaces.cli.imports.translation import NO_LIMIT, Translation, without_wrapping

_SETTING = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")
_QUOTED = re.compile(r"^([\"'])(.*)\1$")
_STEP_OF_ONE = re.compile(r"(?<![^\s,])(\d+|[A-Za-z]{3})/\d+(?![^\s,])", re.ASCII)
_ZONE = "CRON_TZ"
_DELAY = "RANDOM_DELAY"
_MAIL = ("MAILTO", "MAILFROM")
FIELDS = 5


def read_crontab(text: str, *, zone: str, has_user: bool = False, place: str = "crontab") -> Translation:
    reading = _Reading(zone, has_user)
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            reading.take(line.strip(), f"{place}:{number}")
    if reading.found.definitions:
        reading.found.note(place, f"cron {NO_LIMIT}")
    return reading.found


@dataclass(slots=True)
class _Reading:
    zone: str
    has_user: bool
    found: Translation = field(default_factory=Translation)
    settings: dict[str, str] = field(default_factory=dict)

    def take(self, line: str, where: str) -> None:
        setting = _SETTING.match(line)
        if setting is None:
            self._take_entry(line, where)
        elif setting[1] in _MAIL:
            self.found.note(where, f"{setting[1]}: output is kept with each task and sent to nobody")
        elif setting[1] == _DELAY:
            self.found.note(where, f"{_DELAY} is left out: give jitter_seconds, {setting[2]} minutes")
        else:
            if setting[1] == "TZ":
                self.found.note(where, f"TZ is set for the commands alone: cron fires by {_ZONE}, or by its own zone")
            self.settings[setting[1]] = _QUOTED.sub(r"\2", setting[2])

    def _take_entry(self, line: str, where: str) -> None:
        count = (1 if line.startswith("@") else FIELDS) + self.has_user
        parts = line.split(None, count)
        if len(parts) <= count:
            self.found.note(where, "not translated: has no command")
            return
        *times, command = parts
        if self.has_user:
            self.found.note(where, f"ran as {times.pop()}: who runs it now is up to the worker")
        cron = " ".join(times)
        if cron.lower() == "@reboot":
            self.found.note(where, "not translated: @reboot is no time; start it with the machine")
            return
        if not self.has_user and command.split()[0] == "root":
            self.found.note(where, "root is read as the command: if it is the user, give --system")
        unwrapped = _STEP_OF_ONE.sub(r"\1", without_wrapping(cron))
        if unwrapped != cron:
            self.found.note(where, f"{cron} is read as {unwrapped}, as BusyBox does; other crons refuse the line")
        definition = {
            "type": name_of_command(command),
            "description": f"from {where}: {command}"[:2000],
            "executor": {"type": "local"},
            "retry": {"max_retries": 0},
            "payload": self._payload(command),
        }
        zone = self.settings.get(_ZONE, self.zone)
        schedule = {"cron": unwrapped, "zone": zone, "overlap": "allow", "on_missed": "skip"}
        self.found.add(where, definition, schedule=schedule)

    def _payload(self, command: str) -> dict[str, Any]:
        """The command; what follows its first % that is not escaped is its input, each further % a new line, and its
        last line ends, too."""
        parts = [part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", command)]
        payload: dict[str, Any] = {"command": parts[0].strip()}
        if len(parts) > 1:
            given = "\n".join(parts[1:])
            payload["stdin"] = given if given.endswith("\n") or not given else f"{given}\n"
        if environment := {name: value for name, value in self.settings.items() if name != _ZONE}:
            payload["env"] = environment
        return payload
