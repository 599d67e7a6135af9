"""Definitions of types in files: reading them, and what applying them would change.

A set of files has a name, its source, which every definition that is applied from it carries; what carries it and is in
no file any more may be pruned. Whatever was made in another way is never touched by that.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT
from rota.interfaces.cli.input import read_text
from rota.wire.changes import TOLD_ONLY, Change, changes
from rota.wire.config import TaskConfig

MOST_BYTES = 4 * 1024**2  # of one file
MOST_FILES = 10_000
SUFFIXES = (".yaml", ".yml", ".json")
DEFAULT_SOURCE = "files"
Definition = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is done about one type: `+` it is made, `~` changed, `-` deleted, `=` left as it is."""

    sign: str
    type: str
    definition: Definition | None = None
    changes: Sequence[Change] = ()


def read_definitions(file: str) -> list[Definition]:
    """Those in a file, `-`, or in all files of a folder; a type may be there once."""
    found: list[tuple[str, Definition]] = []
    for one in _files(file):
        found += [(one, definition) for definition in _read_file(one)]
    if not found:
        raise InvalidError("--file", f"{file} defines nothing")
    seen: dict[str, str] = {}
    for one, definition in found:
        if (first := seen.get(definition["type"])) is not None:
            places = f"twice in {one}" if first == one else f"in {first} and in {one}"
            raise InvalidError("--file", f"{definition['type']!r} is defined {places}")
        seen[definition["type"]] = one
    return [{key: value for key, value in definition.items() if key not in _TOLD} for _, definition in found]


def with_source(definitions: Sequence[Definition], source: str) -> list[Definition]:
    return [{**definition, "source": source} for definition in definitions]


@contextmanager
def about(definition: Definition) -> Iterator[None]:
    """Let a mistake name the type in whose definition it is."""
    try:
        yield
    except InvalidError as error:
        parts = [InvalidError(f"{definition['type']}: {one.field}", one.problem) for one in error.parts or (error,)]
        named = InvalidError.of(parts)
        named.args = ("\n".join(map(str, parts)),)
        raise named from error


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
        documents = [part for part in yaml.safe_load_all(text) if part is not None]
    except yaml.MarkedYAMLError as exc:
        line = f":{exc.problem_mark.line + 1}" if exc.problem_mark is not None else ""
        raise InvalidError("--file", f"{file}{line} is not YAML: {exc.problem or exc.context}") from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:  # also a date that is none
        raise InvalidError("--file", f"{file} is not YAML: {exc}") from exc
    found = [definition for part in documents for definition in (part if isinstance(part, list) else [part])]
    for place, definition in enumerate(found, 1):
        if not isinstance(definition, dict) or not isinstance(definition.get("type"), str):
            raise InvalidError("--file", f"definition {place} in {file} has no `type`")
        yield definition


_TOLD = TOLD_ONLY - {"type", "revision"}  # in what `get` shows, which can be applied again
