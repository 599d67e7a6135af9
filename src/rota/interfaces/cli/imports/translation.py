"""What becomes of the schedules of another program: definitions, and notes of what could not be translated."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.domain.checks import to_json
from rota.domain.errors import InvalidError
from rota.domain.schedule_form import schedule_from

LONGEST_TYPE = 60
_UNFIT = re.compile(r"[^A-Za-z0-9_.]+")
Definition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Note:
    """Where something was left out, and what."""

    place: str
    text: str


@dataclass(slots=True)
class Translation:
    definitions: list[Definition] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def note(self, place: str, text: str) -> None:
        self.notes.append(Note(place, text))

    def add(self, place: str, definition: Definition, *, schedule: Mapping[str, Any]) -> bool:
        """Keep a definition, under a name that is not taken; what cannot be kept is noted instead."""
        try:
            schedule_from(schedule)
            to_json("payload", definition["payload"])
        except InvalidError as error:
            self.note(place, f"not translated: {error}")
            return False
        taken = {one["type"] for one in self.definitions}
        name, number = definition["type"], 2
        while definition["type"] in taken:
            definition["type"] = f"{name}-{number}"
            number += 1
        if definition["type"] != name:
            self.note(place, f"its type is {definition['type']}: there is a {name} already")
        self.definitions.append({**definition, "schedule": dict(schedule)})
        return True


def type_of(text: str) -> str:
    """A name for a type, made of whatever there is."""
    name = _UNFIT.sub("-", text).strip("-._")[:LONGEST_TYPE].strip("-._")
    return name or "job"


def name_of_command(command: str) -> str:
    """The program that a command line runs, without its folder."""
    for word in command.split():
        if "=" not in word.partition("/")[0]:
            return type_of(word.rpartition("/")[2])
    return "job"
