"""Celery's beat schedule, and its calls of `add_periodic_task`, read from the Python file that has them. The file is
parsed and never run.

A task becomes a type of its own for each entry, with the function that the task is most likely to be. Beat runs what is
overdue once when it starts, and does not care whether runs overlap; both are kept. What a task says of its retries and
its time limit stands elsewhere, and is not read. In Celery a weekday and a day of the month must both fit, which is no
crontab: that is not translated. Its ranges may end before they begin, which crontab has as lists.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from typing import Any

from rota.interfaces.cli.imports.translation import NO_LIMIT, Translation, name_before, type_of, without_wrapping

_SCHEDULES = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
_ZONES = ("timezone", "CELERY_TIMEZONE")
_CALLED = ("s", "si", "signature", "subtask", "delay", "apply_async")  # a task, with what may be a timezone of its own
_READ = ("task", "schedule", "args", "kwargs")
_ADDED = "add_periodic_task"
_ADDED_WITH = ("schedule", "sig", "args", "kwargs", "name")
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
    zone = _find_zone(found, tree, zone=zone, place=place)
    tables = [value for name, value in assigned if name in _SCHEDULES]
    tables += [table for node in ast.walk(tree) for table in _put_into(node)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) == _ADDED]
    if not tables and not calls:
        found.note(place, f"there is no {_SCHEDULES[0]} that is written out as a dict, and no {_ADDED}()")
    for table in tables:
        _read_table(found, table, zone=zone, place=place)
    imported = {name: origin for node in ast.walk(tree) for name, origin in _imported(node)}
    for call in calls:
        _read_call(found, call, zone=zone, where=f"{place}:{call.lineno}", imported=imported)
    if found.definitions:
        found.note(place, f"Celery {NO_LIMIT}")
        found.note(
            place, "nothing is tried again: what the tasks say of retries and time limits is not read; give retry"
        )
    return found


def _read_table(found: Translation, table: ast.expr, *, zone: str, place: str) -> None:
    if not isinstance(table, ast.Dict):
        found.note(f"{place}:{table.lineno}", f"not translated: {ast.unparse(table)[:80]} is not written out as a dict")
        return
    for key, entry in zip(table.keys, table.values, strict=True):
        _read_entry(found, key, entry=entry, zone=zone, place=place)


def _find_zone(found: Translation, tree: ast.AST, *, zone: str, place: str) -> str:
    """The zone of all schedules: what Celery is told last or, where it is told none, what is called with one last."""
    named = [one for node in ast.walk(tree) for one in _zones(node)]
    names = [*dict.fromkeys(name for _, _, name in sorted(named, key=itemgetter(1)))]
    zone = max(named)[2] if named else zone
    if len(names) > 1:
        found.note(place, f"names several zones, {', '.join(names)}: {zone} is taken for all")
    return zone


def _zones(node: ast.AST) -> list[tuple[bool, tuple[int, int], str]]:
    """Those that a piece of the program names, each with whether that tells Celery, and with its place in the file."""
    is_told = not isinstance(node, ast.Call) or _tells_celery(node.func)
    given = [value for name, value in _assigned(node) if name in _ZONES and isinstance(value, ast.Constant)]
    return [(is_told, (one.lineno, one.col_offset), one.value) for one in given if isinstance(one.value, str)]


def _tells_celery(called: ast.expr) -> bool:
    """`Celery(…)` and `app.conf.update(…)`."""
    is_conf = isinstance(called, ast.Attribute) and called.attr == "update" and _name(called.value) == "conf"
    return is_conf or _name(called) == "Celery"


def _assigned(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """What a piece of the program gives a name to: it assigns it, or calls something with it."""
    if isinstance(node, ast.Assign):
        return [(_name(target), node.value) for target in node.targets]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [(_name(node.target), node.value)]
    if isinstance(node, ast.Call):
        return [(word.arg or "", word.value) for word in node.keywords if _name(node.func) not in _CALLED]
    return []


def _put_into(node: ast.AST) -> list[ast.expr]:
    """What a piece of the program puts into a schedule that is there: `beat_schedule["a"] = …`, `|= …`, `update(…)`."""
    if isinstance(node, ast.AugAssign) and _name(node.target) in _SCHEDULES:
        return [node.value]
    if isinstance(node, ast.Assign):
        places = [one for one in node.targets if isinstance(one, ast.Subscript) and _name(one.value) in _SCHEDULES]
        return [ast.Dict([one.slice], [node.value]) for one in places]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
        is_ours = _name(node.func.value) in _SCHEDULES
        named = [ast.Dict([ast.Constant(word.arg)], [word.value]) for word in node.keywords if word.arg is not None]
        rest = [word.value for word in node.keywords if word.arg is None]
        return [*node.args, *named, *rest] if is_ours else []
    return []


def _read_entry(found: Translation, key: ast.expr | None, *, entry: ast.expr, zone: str, place: str) -> None:
    where, name = f"{place}:{entry.lineno}", ""
    try:
        name = str(_value(key)) if key is not None else ""
        facts = _facts(entry)
        task = str(_value(facts["task"]))
        schedule = _schedule(facts["schedule"], zone)
        args, kwargs = _arguments(facts)
    except KeyError as error:
        found.note(where, f"not translated: {name_before(name)}has no {error}")
        return
    except UntranslatableError as error:
        found.note(where, f"not translated: {name_before(name)}{error}")
        return
    left_out = {name: value for name, value in facts.items() if name not in _READ}
    _add(found, where, schedule=schedule, run=_Run(name or task, task, args, kwargs, left_out))


def _imported(node: ast.AST) -> list[tuple[str, str]]:
    """What a piece of the program imports: the name it is known by here, and its own."""
    if isinstance(node, ast.Import):
        return [(one.asname, one.name) for one in node.names if one.asname is not None]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [(one.asname or one.name, f"{node.module}.{one.name}") for one in node.names]
    return []


def _read_call(found: Translation, call: ast.Call, *, zone: str, where: str, imported: Mapping[str, str]) -> None:
    """`add_periodic_task(schedule, task.s(…), args, kwargs, name=…)`."""
    facts = dict(zip(_ADDED_WITH, call.args, strict=False)) | {str(word.arg): word.value for word in call.keywords}
    name = ""
    try:
        name = str(_value(facts["name"])) if "name" in facts else ""
        written, args, kwargs = _signature(facts["sig"])
        name = name or written
        first, dot, rest = written.partition(".")
        task = imported.get(first, first) + dot + rest
        schedule = _schedule(facts["schedule"], zone)
        more_args, more_kwargs = _arguments(facts)
    except KeyError as error:
        found.note(where, f"not translated: {name_before(name)}has no {error}")
        return
    except UntranslatableError as error:
        found.note(where, f"not translated: {name_before(name)}{error}")
        return
    left_out = {name: value for name, value in facts.items() if name not in _ADDED_WITH}
    run = _Run(name, task, [*more_args, *args], {**kwargs, **more_kwargs}, left_out)
    _add(found, where, schedule=schedule, run=run)


def _signature(given: ast.expr) -> tuple[str, list[Any], dict[str, Any]]:
    """The task that a signature is of, by the name that the file has for it, and its arguments."""
    made = given.func if isinstance(given, ast.Call) else None
    task = _path(made.value) if isinstance(made, ast.Attribute) and made.attr in ("s", "si") else ""
    if not isinstance(given, ast.Call) or not task:
        raise UntranslatableError(f"{ast.unparse(given)[:80]} is no signature such as task.s(1)")
    named = {str(word.arg): _value(word.value) for word in given.keywords if word.arg is not None}
    if len(named) != len(given.keywords) or any(isinstance(one, ast.Starred) for one in given.args):
        raise UntranslatableError(f"{ast.unparse(given)[:80]} has arguments that are not written out")
    return task, [_value(one) for one in given.args], named


@dataclass(frozen=True, slots=True)
class _Run:
    name: str
    task: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    left_out: Mapping[str, ast.expr]


def _add(found: Translation, where: str, *, schedule: Mapping[str, Any], run: _Run) -> None:
    module, _, function = run.task.rpartition(".")
    if not module:
        found.note(where, f"{run.name}: the module of {run.task} is not known; give executor.function, module:name")
    if run.args:
        found.note(where, f"{run.name}: positional arguments {run.args} are in the payload as `args`; give them names")
    for name, value in run.left_out.items():
        found.note(where, f"{run.name}: {name} is left out: {ast.unparse(value)}")
    definition = {
        "type": type_of(run.name, run.task),
        "name": run.name[:200],
        "description": f"was {run.task}"[:2000],
        "executor": {"type": "local", **({"function": f"{module}:{function}"} if module else {})},
        "retry": {"max_retries": 0},
        "payload": {**run.kwargs, **({"args": list(run.args)} if run.args else {})},
    }
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
    return without_wrapping(" ".join(fields[name].replace(" ", "") for name in _CRONTAB))


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


def _path(given: ast.expr) -> str:
    """A name with dots; empty: it is something else."""
    if isinstance(given, ast.Name):
        return given.id
    before = _path(given.value) if isinstance(given, ast.Attribute) else ""
    return f"{before}.{_name(given)}" if before else ""
