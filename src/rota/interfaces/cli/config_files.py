"""Definitions of types in files: reading them, and what applying them would change.

A set of files has a name, its source, which every definition that is applied from it carries; what carries it and is in
no file any more may be pruned. Whatever was made in another way is never touched by that.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
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


def read_definitions(file: str) -> list[Definition]:
    """Those in a file, `-`, or in all files of a folder; a type may be there once."""
    found = [definition for one in _files(file) for definition in _read_file(one)]
    if not found:
        raise InvalidError("--file", f"{file} defines nothing")
    seen: dict[str, Place] = {}
    for one in found:
        if (first := seen.get(one.type)) is not None:
            raise InvalidError("--file", f"{one.type!r} is defined twice, in {first.of()} and in {one.place.of()}")
        seen[one.type] = one.place
    return found


def with_source(definitions: Sequence[Definition], source: str) -> list[Definition]:
    return [Definition({**definition, "source": source}, definition.place) for definition in definitions]


@contextmanager
def about(definition: Definition) -> Iterator[None]:
    """Let a mistake name the type in whose definition it is, the file and the line."""
    place, task_type = definition.place, definition.type
    try:
        yield
    except InvalidError as error:
        parts = [
            InvalidError(f"{place.of(one.field)}: {task_type}: {one.field}", one.problem)
            for one in error.parts or (error,)
        ]
        named = InvalidError.of(parts)
        named.args = ("\n".join(map(str, parts)),)
        raise named from error
    except ConflictError as error:
        error.args = (f"{place.of('revision')}: {error}",)
        raise


def plan(definitions: Sequence[Definition], present: Mapping[str, TaskConfig], *, prune: str = "") -> list[Step]:
    """What there is to do, in the order of the types; `prune` is the source of what may be deleted."""
    steps = [_step(definition, present.get(definition["type"])) for definition in definitions]
    kept = {definition["type"] for definition in definitions}
    doomed = [one for one in present.values() if prune and one.source == prune and one.type not in kept]
    return sorted([*steps, *(Step(sign="-", type=one.type) for one in doomed)], key=lambda step: step.type)


def _step(definition: Definition, current: TaskConfig | None) -> Step:
    from rota.client.cluster_calls import read_definition
    from rota.interfaces.operations.read import task_config
    from rota.interfaces.operations.render import config_answer

    with about(definition):
        body = read_definition(definition["type"], definition)
        wanted = config_answer(task_config(body, task_type=definition["type"], tenant_id=DEFAULT_TENANT))
    if current is None:
        return Step(sign="+", type=wanted.type, definition=definition)
    differs = changes(current, wanted)
    return Step(sign="~" if differs else "=", type=wanted.type, definition=definition, changes=differs)


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


def _read_file(file: str) -> Iterator[Definition]:
    import yaml

    text = read_text("--file", file, most=MOST_BYTES)
    try:
        parts = [one for node, value in _read_documents(text) for one in _list_parts(node, value)]
    except yaml.MarkedYAMLError as exc:
        line = f":{exc.problem_mark.line + 1}" if exc.problem_mark is not None else ""
        raise InvalidError("--file", f"{file}{line} is not YAML: {exc.problem or exc.context}") from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:  # also a date that is none
        raise InvalidError("--file", f"{file} is not YAML: {exc}") from exc
    for node, facts in parts:
        place = Place(file, node)
        if not isinstance(facts, dict) or not isinstance(facts.get("type"), str):
            raise InvalidError("--file", f"{place.of('type')}: the definition has no `type`")
        yield Definition({key: value for key, value in facts.items() if key not in _TOLD}, place)


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
