"""What becomes of the schedules of another program: definitions, and notes of what could not be translated."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
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
    _origins: list[tuple[str, str]] = field(default_factory=list)  # of each definition: its place and its ending

    def note(self, place: str, text: str) -> None:
        self.notes.append(Note(place, text))

    def add(
        self, place: str, definition: Definition, *, schedule: Mapping[str, Any] | None, ending: str | None = None
    ) -> bool:
        """Keep a definition; what cannot be kept is noted instead. `ending` is what its type ends with where others
        have the same, and is made of the definition by default."""
        try:
            if schedule is not None:
                self._check_schedule(definition["type"], schedule)
            to_json("payload", definition["payload"])
        except InvalidError as error:
            self.note(place, f"not translated: {name_before(definition.get('name'))}{error}")
            return False
        kept = definition if schedule is None else {**definition, "schedule": dict(schedule)}
        self.definitions.append(kept)
        self._origins.append((place, ending or _digest(kept)))
        return True

    def _check_schedule(self, name: str, schedule: Mapping[str, Any]) -> None:
        read = schedule_from(schedule)
        if self.now is not None:
            config = TaskConfig(type=name, schedule=read)
            check_fires(replace(config, next_fire_at=first_fire_at(config, self.now)), self.now)

    def name_apart(self, prefix: str = "") -> None:
        """Give each a type of its own that no other entry changes, whether it comes, goes or moves: of several that
        are called the same, each gets its ending."""
        alike = Counter(one["type"] for one in self.definitions)
        taken = {name for name in alike if alike[name] == 1}
        for definition, (place, ending) in zip(self.definitions, self._origins, strict=True):
            name = definition["type"]
            if alike[name] > 1:
                made = next(one for one in _numbered(f"{name}-{ending}") if one not in taken)
                taken.add(made)
                self.note(
                    place, f"its type is {prefix}{made}, since {alike[name]} would be called {name}{_need(definition)}"
                )
                definition["type"] = made
            definition["type"] = f"{prefix}{definition['type']}"


def name_before(name: object) -> str:
    """What is said of an entry begins with its name, if it has one."""
    return f"{name}: " if name else ""


def _digest(definition: Definition) -> str:
    """A few characters that stay the same as long as its schedule and what it runs do."""
    payload = {key: value for key, value in definition["payload"].items() if key != "env"}
    said = json.dumps([definition.get("schedule"), payload], sort_keys=True)
    return hashlib.blake2b(said.encode(), digest_size=3).hexdigest()


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def _need(definition: Definition) -> str:
    if "function" in definition["executor"]:
        return ""
    return "; a worker needs a function of this name, or give executor.function, MODULE:NAME"


def type_of(*texts: str) -> str:
    """A name for a type, made of the first text that has any letter or digit for one."""
    names = (_UNFIT.sub("-", text).strip("-._")[:LONGEST_TYPE].strip("-._") for text in texts)
    return next(filter(None, names), "job")


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
