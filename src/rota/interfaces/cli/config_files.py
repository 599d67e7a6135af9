"""Definitions of types in files: reading them, and what applying them would change.

A set of files has a name, its source, which every definition that is applied from it carries; what carries it and is in
no file any more may be pruned. Whatever was made in another way is never touched by that.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.domain.errors import ConflictError, InvalidError
from rota.domain.ids import DEFAULT_TENANT
from rota.interfaces.cli.input import read_text
from rota.wire.changes import TOLD_ONLY, Change, changes
from rota.wire.config import TaskConfig

if TYPE_CHECKING:
    import yaml

MOST_BYTES = 4 * 1024**2  # of one file
MOST_FILES = 10_000
SUFFIXES = (".yaml", ".yml", ".json")
DEFAULT_SOURCE = "files"
MOST_LOOKS = 20  # at one definition, for what else is wrong
_PART = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a definition is written."""

    file: str
    node: "yaml.Node"

    def of(self, field: str = "") -> str:
        """The file and the line of one of its fields, or of what is around it."""
        node, line = self.node, self.node.start_mark.line
        for part in _PART.findall(field):
            found = _find_child(node, part)
            if found is None:
                break
            line, node = found
        return f"{self.file}:{line + 1}"


class Definition(dict[str, Any]):
    """What a type is to be, and where that is written."""

    def __init__(self, facts: Mapping[str, Any], place: Place) -> None:
        super().__init__(facts)
        self.place = place

    @property
    def type(self) -> str:
        return str(self["type"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is done about one type: `+` it is made, `~` changed, `-` deleted, `=` left as it is."""

    sign: str
    type: str
    definition: Definition | None = None
    changes: Sequence[Change] = ()


def read_definitions(file: str) -> tuple[list[Definition], list[InvalidError]]:
    """Those in a file, `-`, or in all files of a folder, and what is wrong there; a type may be there once. None at
    all may be meant, by whoever deletes what was there."""
    found: list[Definition] = []
    problems: list[InvalidError] = []
    for one in _files(file):
        try:
            parts = _read_parts(one)
        except InvalidError as error:
            problems.append(error)
            continue
        for place, facts in parts:
            if isinstance(facts, dict) and isinstance(facts.get("type"), str):
                found.append(Definition({key: value for key, value in facts.items() if key not in _TOLD}, place))
            else:
                problems.append(InvalidError("--file", f"{place.of('type')}: the definition has no `type`"))
    return found, [*problems, *_list_doubles(found)]


def with_source(definitions: Sequence[Definition], source: str) -> list[Definition]:
    return [Definition({**definition, "source": source}, definition.place) for definition in definitions]


@contextmanager
def about(definition: Definition) -> Iterator[None]:
    """Let a mistake name the type in whose definition it is, the file and the line."""
    try:
        yield
    except InvalidError as error:
        parts = [_name(definition, one) for one in error.parts or (error,)]
        named = InvalidError.of(parts)
        named.args = ("\n".join(map(str, parts)),)
        raise named from error
    except ConflictError as error:
        error.args = (f"{definition.place.of('revision')}: {error}",)
        raise


def list_mistakes(definition: Definition, check: Callable[[Definition], object]) -> list[InvalidError]:
    """All that is wrong in a definition, with its places. Whoever reads or checks one tells the first mistake alone:
    that is taken out, and the rest looked at again. A revision that is not the current one is a `ConflictError` if
    nothing else is wrong."""
    from rota.client.cluster_calls import read_definition

    def judge(rest: Definition) -> None:
        _read(rest)
        check(rest)

    found: list[InvalidError] = []
    _gather(found, definition, look=lambda rest: read_definition(rest.type, rest), depth=None)
    readable = definition
    for one in found:
        readable = _without(readable, one.field, depth=1)
    with about(definition):
        _gather(found, readable, look=judge, depth=1)
    return [_name(definition, one) for one in found]


def plan(definitions: Sequence[Definition], present: Mapping[str, TaskConfig], *, prune: str = "") -> list[Step]:
    """What there is to do, in the order of the types; `prune` is the source of what may be deleted."""
    steps = [_step(definition, present.get(definition["type"])) for definition in definitions]
    kept = {definition["type"] for definition in definitions}
    doomed = [one for one in present.values() if prune and one.source == prune and one.type not in kept]
    return sorted([*steps, *(Step(sign="-", type=one.type) for one in doomed)], key=lambda step: step.type)


def _step(definition: Definition, current: TaskConfig | None) -> Step:
    if current is None:
        return Step(sign="+", type=definition.type, definition=definition)
    try:
        differs = changes(current, _read(definition))
    except InvalidError:  # which `list_mistakes` tells, with all others
        return Step(sign="~", type=definition.type, definition=definition)
    return Step(sign="~" if differs else "=", type=definition.type, definition=definition, changes=differs)


def _read(definition: Definition) -> TaskConfig:
    """The type as a server would show it."""
    from rota.client.cluster_calls import read_definition
    from rota.interfaces.operations.read import task_config
    from rota.interfaces.operations.render import config_answer

    body = read_definition(definition.type, definition)
    return config_answer(task_config(body, task_type=definition.type, tenant_id=DEFAULT_TENANT))


def _name(definition: Definition, mistake: InvalidError) -> InvalidError:
    place = f"{definition.place.of(mistake.field)}: {definition.type}: {mistake.field}"
    return InvalidError(place, mistake.problem)


def _gather(
    found: list[InvalidError], rest: Definition, *, look: Callable[[Definition], object], depth: int | None
) -> None:
    """Add what is wrong, but for what is wrong only since something was taken out."""
    for _ in range(MOST_LOOKS):
        try:
            look(rest)
        except InvalidError as error:
            parts = list(error.parts or (error,))
        except ConflictError as error:
            if not found:
                raise
            parts = [InvalidError("revision", str(error))]
        else:
            return
        told = {one.field for one in found}
        is_guess = any(field.startswith("executor") for field in told)  # by which payloads are judged
        found += [one for one in parts if one.field not in told and not (is_guess and one.field.endswith("payload"))]
        left = rest
        for one in parts:
            left = _without(left, one.field, depth=depth)
        if left == rest:
            return
        rest = left


def _without(definition: Definition, field: str, *, depth: int | None) -> Definition:
    """All but this field; or but for what is around it, where it is not there, is deeper than that, or is in a list."""
    path = _PART.findall(field)[:depth]
    if path[:1] in ([], ["type"]):  # which is needed
        return definition
    if path == ["max_concurrent"]:  # by which the overlap is judged: with 1 any will do
        return Definition({**definition, "max_concurrent": 1}, definition.place)
    return Definition(_leave_out(definition, path), definition.place)


def _leave_out(facts: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    name, *inner = path
    held = facts.get(name)
    if inner and isinstance(held, dict) and inner[0] in held:
        return {**facts, name: _leave_out(held, inner)}
    return {key: value for key, value in facts.items() if key != name}


def _files(file: str) -> list[str]:
    folder = Path(file)
    if file == "-" or not folder.is_dir():
        return [file]
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in SUFFIXES and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if len(found) > MOST_FILES:
        raise InvalidError("--file", f"{file} has {len(found)} files, at most {MOST_FILES} are read")
    return [str(path) for path in found]


def _read_parts(file: str) -> list[tuple[Place, Any]]:
    """What a file has where definitions belong."""
    import yaml

    text = read_text("--file", file, most=MOST_BYTES)
    try:
        parts = [one for node, value in _read_documents(text) for one in _list_parts(node, value)]
    except yaml.MarkedYAMLError as exc:
        line = f":{exc.problem_mark.line + 1}" if exc.problem_mark is not None else ""
        raise InvalidError("--file", f"{file}{line} is not YAML: {exc.problem or exc.context}") from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:  # also a date that is none
        raise InvalidError("--file", f"{file} is not YAML: {exc}") from exc
    return [(Place(file, node), facts) for node, facts in parts]


def _list_doubles(definitions: Sequence[Definition]) -> Iterator[InvalidError]:
    seen: dict[str, Place] = {}
    for one in definitions:
        first = seen.setdefault(one.type, one.place)
        if first is not one.place:
            yield InvalidError("--file", f"{one.type!r} is defined twice, in {first.of()} and in {one.place.of()}")


def _read_documents(text: str) -> "Iterator[tuple[yaml.Node, Any]]":
    """As `safe_load_all`, each with what knows its lines."""
    import yaml

    loader = yaml.SafeLoader(text)
    while loader.check_node() and (node := loader.get_node()) is not None:
        yield node, loader.construct_document(node)


def _list_parts(node: "yaml.Node", value: Any) -> "list[tuple[yaml.Node, Any]]":
    """A document may be a list of definitions, or empty."""
    if value is None:
        return []
    return list(zip(node.value, value, strict=True)) if isinstance(value, list) else [(node, value)]


def _find_child(node: "yaml.Node", part: str) -> "tuple[int, yaml.Node] | None":
    """The value that a node has under a name, or at a number, and its line."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark.line, value) for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
        return node.value[int(part)].start_mark.line, node.value[int(part)]
    return None


_TOLD = TOLD_ONLY - {"type", "revision"}  # in what `get` shows, which can be applied again
