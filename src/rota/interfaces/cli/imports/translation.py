"""What becomes of the schedules of another program: definitions, and notes of what could not be translated."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from rota.domain.checks import to_json
from rota.domain.ended import check_fires
from rota.domain.errors import InvalidError
from rota.domain.firing import first_fire_at
from rota.domain.schedule_form import schedule_from
from rota.domain.task_config import TaskConfig

LONGEST_TYPE = 60
NO_LIMIT = "sets no time limit; here a run ends after five minutes unless its timeout_seconds says otherwise"
_UNFIT = re.compile(r"[^A-Za-z0-9_.]+")
_WRAPPING = re.compile(r"(?P<first>\w+)-(?P<last>\w+)(?:/(?P<step>\d{1,2}))?", re.ASCII)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = ((0, 60, ()), (0, 24, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 7, _DAYS))  # the least, how many, their names
Definition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Note:
    """Where something was left out, and what."""

    place: str
    text: str


@dataclass(slots=True)
class Translation:
    now: datetime | None = None  # what has no time after it is noted; None: nothing can come to an end there
    definitions: list[Definition] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def note(self, place: str, text: str) -> None:
        self.notes.append(Note(place, text))

    def add(self, place: str, definition: Definition, *, schedule: Mapping[str, Any]) -> bool:
        """Keep a definition, under a name that is not taken; what cannot be kept is noted instead."""
        try:
            read = schedule_from(schedule)
            if self.now is not None:
                config = TaskConfig(type=definition["type"], schedule=read)
                check_fires(replace(config, next_fire_at=first_fire_at(config, self.now)), self.now)
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


def type_of(*texts: str) -> str:
    """A name for a type, made of the first text that has any letter or digit for one."""
    names = (_UNFIT.sub("-", text).strip("-._")[:LONGEST_TYPE].strip("-._") for text in texts)
    return next(filter(None, names), "job")


def name_of_command(command: str) -> str:
    """The program that a command line runs, without its folder."""
    for word in command.split():
        if "=" not in word.partition("/")[0]:
            return type_of(word.rpartition("/")[2])
    return "job"


def without_wrapping(cron: str) -> str:
    """An expression of five fields; ranges that end before they begin, as `22-2`, as the values that they stand for."""
    fields = cron.split()
    if len(fields) != len(_FIELDS):
        return cron
    return " ".join(
        ",".join(_unwrapped(item, known) for item in field.split(","))
        for field, known in zip(fields, _FIELDS, strict=True)
    )


def _unwrapped(item: str, known: tuple[int, int, tuple[str, ...]]) -> str:
    (least, size, names), found = known, _WRAPPING.fullmatch(item)
    if found is None:
        return item
    first, last = (_number(found[end], least, names=names) for end in ("first", "last"))
    step = int(found["step"] or 1)
    if first is None or last is None or not least <= last < first < least + size or not step:
        return item
    return ",".join(str(least + (value - least) % size) for value in range(first, last + size + 1, step))


def _number(text: str, least: int, *, names: Sequence[str]) -> int | None:
    if text.isdigit():
        return int(text)
    return least + names.index(text.lower()) if text.lower() in names else None
