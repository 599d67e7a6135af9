"""What msgspec finds wrong with a value, in words for whoever wrote it: the field, what may stand there, and what may
have been meant."""

import re
from collections.abc import Iterator

from msgspec.inspect import CollectionType, EnumType, Metadata, StructType, Type, UnionType, type_info

from rota.domain.errors import InvalidError
from rota.domain.spelling import find_near, hint

MOST_NAME = 100  # characters of a name that is shown again
UNDER_SCHEDULE = "it belongs in `schedule`"
WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "datetime": "a time such as 2030-01-31T09:00:00Z",
}
_PLACE = re.compile(r"(?s)(?P<problem>.*?)(?: - at `\$?\.?(?P<path>[^`]*)`)?")
_UNKNOWN = re.compile(r"(?s)Object contains unknown field `(.*)`")
_MISSING = re.compile(r"(?s)Object missing required field `(.*)`")
_CHOICE = re.compile(r"(?s)Invalid enum value '?(.*?)'?")
_KIND = re.compile(r"Expected `([^`]*)`(?:, got `([^`]*)`)?")
_KINDS = {str: "str", int: "int", float: "float", bool: "bool", dict: "object", list: "array", type(None): "null"}
_BOUND = re.compile(r"Expected `([^`]*)` ([<>]=) ([-0-9.]+)")
_LENGTH = re.compile(r"Expected `([^`]*)` of length ([<>]=) (\d+)")
_BOUNDS = {"<=": "at most", ">=": "at least"}
_NO_TIME = "Invalid RFC3339 encoded datetime"


def explain(
    error: Exception, wanted: object, *, given: object = None, within: str = "", whole: str = "body"
) -> InvalidError:
    """The mistake as Rota tells it. `given` is the value, `within` where it stands itself, `whole` what it is called if
    it is wrong as a whole."""
    found = _PLACE.fullmatch(str(error))
    problem, path = (found["problem"], found["path"] or "") if found else (str(error), "")
    place = ".".join(part for part in (within, _find_key(problem, path, given=given)) if part)
    if named := _UNKNOWN.fullmatch(problem):
        name = named[1][:MOST_NAME]
        meant = _tell_meant(name, _names_at(wanted, path))
        return InvalidError(f"{place}.{name}" if place else name, f"is not known; {meant}")
    if named := _MISSING.fullmatch(problem):
        return InvalidError(f"{place}.{named[1]}" if place else named[1], "is missing")
    return InvalidError(place or whole, _reword(problem, wanted, path=path))


def _tell_meant(name: str, names: list[str]) -> str:
    if "schedule" in names:
        from rota.domain.schedule_form import KNOWN_KEYS  # every client has this module, and few need schedules

        if name in KNOWN_KEYS:
            return UNDER_SCHEDULE
    return hint(name, names)


def _find_key(problem: str, path: str, *, given: object) -> str:
    """The path with the key for which msgspec writes `[...]`: the first whose value is of the kind that is wrong."""
    before, is_open, after = path.partition("[...]")
    held = given
    for name in before.split("."):
        held = held.get(name) if isinstance(held, dict) else None
    kind = _KIND.fullmatch(problem)
    if is_open and not after and kind and isinstance(held, dict):
        for key, value in held.items():
            if _KINDS.get(type(value)) == kind[2]:
                return f"{before}.{key[:MOST_NAME]}"
    return path.replace("[...]", "")


def _reword(problem: str, wanted: object, *, path: str) -> str:
    if chosen := _CHOICE.fullmatch(problem):
        given, choices = chosen[1][:MOST_NAME], _choices_at(wanted, path)
        near = find_near(given, choices)
        meant = "" if near is None else f"; did you mean {near}?"
        return f"must be one of {', '.join(choices)}, not {given!r}{meant}"
    if (kind := _KIND.fullmatch(problem)) and kind[2]:
        return f"must be {_spell(kind[1])}, not {_spell(kind[2])}"
    if bound := _BOUND.fullmatch(problem):
        return f"must be {_spell(bound[1])}, {_BOUNDS[bound[2]]} {bound[3]}"
    if length := _LENGTH.fullmatch(problem):
        unit = "characters" if length[1] == "str" else "items"
        return f"must be {_spell(length[1])} of {_BOUNDS[length[2]]} {length[3]} {unit}"
    if problem == _NO_TIME:
        return f"must be {WORDS['datetime']}"
    return problem[:1].lower() + problem[1:]


def _spell(kinds: str) -> str:
    return " or ".join(WORDS.get(kind, kind) for kind in kinds.split(" | "))


def _names_at(wanted: object, path: str) -> list[str]:
    found = (kind for kind in _kinds_at(wanted, path) if isinstance(kind, StructType))
    return [field.encode_name for kind in found for field in kind.fields]


def _choices_at(wanted: object, path: str) -> list[str]:
    found = (kind for kind in _kinds_at(wanted, path) if isinstance(kind, EnumType))
    return [str(member.value) for kind in found for member in kind.cls]


def _kinds_at(wanted: object, path: str) -> list[Type]:
    """What may stand at `tasks[3].retry` of a value of this kind."""
    kinds = list(_unfold(type_info(wanted)))
    for name in re.findall(r"[^.\[\]]+(?=[.\[]|$)", path):
        fields = (field for kind in kinds if isinstance(kind, StructType) for field in kind.fields)
        kinds = [kind for field in fields if field.encode_name == name for kind in _unfold(field.type)]
    return kinds


def _unfold(kind: Type) -> Iterator[Type]:
    """The kinds that a union or a list is of."""
    if isinstance(kind, UnionType):
        for part in kind.types:
            yield from _unfold(part)
    elif isinstance(kind, CollectionType):
        yield from _unfold(kind.item_type)
    elif isinstance(kind, Metadata):
        yield from _unfold(kind.type)
    else:
        yield kind
