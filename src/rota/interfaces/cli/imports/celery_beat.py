"""Celery's beat schedule, read from the Python file that has it. The file is parsed and never run.

A task becomes a type of its own for each entry, with the function that the task is most likely to be. Beat runs what is
overdue once when it starts, and does not care whether runs overlap; both are kept. In Celery a weekday and a day of the
month must both fit, which is no crontab: that is not translated.
"""

import ast
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rota.interfaces.cli.imports.translation import Translation, type_of

_SCHEDULES = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
_ZONES = ("timezone", "CELERY_TIMEZONE")
_CRONTAB = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_CELERYS_ORDER = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
_SPANS = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")


class UntranslatableError(Exception):
    """What it says has no counterpart, or is not a plain value."""


def read_beat(source: str, *, zone: str, place: str = "celery") -> Translation:
    found = Translation()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        found.note(place, f"not translated: is no Python ({error})")
        return found
    assigned = [pair for node in ast.walk(tree) for pair in _assigned(node)]
    for name, value in assigned:
        if name in _ZONES and isinstance(value, ast.Constant) and isinstance(value.value, str):
            zone = value.value
    tables = [value for name, value in assigned if name in _SCHEDULES and isinstance(value, ast.Dict)]
    if not tables:
        found.note(place, f"there is no {_SCHEDULES[0]} that is written out as a dict")
    for table in tables:
        for key, entry in zip(table.keys, table.values, strict=True):
            _read_entry(found, key, entry=entry, zone=zone, place=place)
    return found


def _assigned(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """What a piece of the program gives a name to: it assigns it, or calls something with it."""
    if isinstance(node, ast.Assign):
        return [(_name(target), node.value) for target in node.targets]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [(_name(node.target), node.value)]
    return [(word.arg or "", word.value) for word in node.keywords] if isinstance(node, ast.Call) else []


def _read_entry(found: Translation, key: ast.expr | None, *, entry: ast.expr, zone: str, place: str) -> None:
    where = f"{place}:{entry.lineno}"
    try:
        name = str(_value(key)) if key is not None else ""
        facts = _facts(entry)
        task = str(_value(facts["task"]))
        schedule = _schedule(facts["schedule"], zone)
        args, kwargs = _arguments(facts)
    except KeyError as error:
        found.note(where, f"not translated: has no {error}")
        return
    except UntranslatableError as error:
        found.note(where, f"not translated: {error}")
        return
    module, _, function = task.rpartition(".")
    if args:
        found.note(where, f"{name}: positional arguments {args} are in the payload as `args`; give them names")
    if "options" in facts:
        found.note(where, f"{name}: options are left out: {ast.unparse(facts['options'])}")
    executor = {"type": "local", **({"function": f"{module}:{function}"} if module else {})}
    payload = {**kwargs, **({"args": args} if args else {})}
    definition = {"type": type_of(name or task), "description": f"was {task}", "executor": executor, "payload": payload}
    found.add(where, definition, schedule={**schedule, "overlap": "allow", "on_missed": "run_once"})


def _facts(entry: ast.expr) -> dict[str, ast.expr]:
    if not isinstance(entry, ast.Dict):
        raise UntranslatableError("is not written out as a dict")
    return {str(_value(one)): value for one, value in zip(entry.keys, entry.values, strict=True) if one is not None}


def _arguments(facts: Mapping[str, ast.expr]) -> tuple[list[Any], dict[str, Any]]:
    args = _value(facts["args"]) if "args" in facts else ()
    kwargs = _value(facts["kwargs"]) if "kwargs" in facts else {}
    if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        raise UntranslatableError("its kwargs must be a dict, and its args a list or a tuple")
    return list(args), kwargs


def _schedule(given: ast.expr, zone: str) -> dict[str, Any]:
    if not isinstance(given, ast.Call):
        pace = _value(given)
        if isinstance(pace, bool) or not isinstance(pace, int | float):
            raise UntranslatableError(f"{ast.unparse(given)} is no number of seconds")
        return {"every_seconds": float(pace)}
    kind = _name(given.func)
    if kind == "timedelta":
        return {"every_seconds": _span(given)}
    if kind == "schedule":
        inner = given.args[0] if given.args else next((w.value for w in given.keywords if w.arg == "run_every"), None)
        if inner is None:
            raise UntranslatableError("schedule() has no run_every")
        return _schedule(inner, zone)
    if kind == "crontab":
        return {"cron": _crontab(given), "zone": zone}
    raise UntranslatableError(f"{kind}() has no counterpart")


def _crontab(given: ast.Call) -> str:
    fields: dict[str, str] = dict.fromkeys(_CRONTAB, "*")
    pairs = [*zip(_CELERYS_ORDER, given.args, strict=False), *((word.arg, word.value) for word in given.keywords)]
    for name, value in pairs:
        if name not in fields:
            raise UntranslatableError(f"crontab() has {name}, which is left to the zone here")
        plain = _value(value)
        fields[name] = ",".join(map(str, plain)) if isinstance(plain, list | tuple | set) else str(plain)
    if fields["day_of_month"] != "*" and fields["day_of_week"] != "*":
        raise UntranslatableError("needs a weekday and a day of the month at once")
    return " ".join(fields[name].replace(" ", "") for name in _CRONTAB)


def _span(given: ast.Call) -> float:
    values = {name: _value(value) for name, value in zip(_SPANS, given.args, strict=False)}
    values |= {str(word.arg): _value(word.value) for word in given.keywords}
    try:
        return timedelta(**values).total_seconds()
    except (TypeError, OverflowError) as error:
        raise UntranslatableError(f"{ast.unparse(given)}: {error}") from error


def _value(given: ast.expr) -> Any:
    try:
        return ast.literal_eval(given)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise UntranslatableError(f"{ast.unparse(given)} is not a plain value") from error


def _name(given: ast.expr) -> str:
    return given.attr if isinstance(given, ast.Attribute) else given.id if isinstance(given, ast.Name) else ""
