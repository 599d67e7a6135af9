"""The settings file: YAML of plain values, two levels deep, each value with its line.

It is read as `yaml.safe_load` would, and more strictly: a key that stands twice is an error (YAML lets the last one
win), and so is an alias, with which a few lines can stand for gigabytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rota.config.settings import SECTIONS
from rota.domain.errors import ConfigError

MOST_BYTES = 1024 * 1024
EMPTY = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True)
class FileValues:
    """Raw values by dotted key, each with its line; and what is wrong with the file's form."""

    values: dict[str, tuple[Any, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=mark)
        return super().compose_node(parent, index)


def read_file(path: Path) -> FileValues:
    """What the file says. Raises `ConfigError` when it is not there or is no YAML."""
    text = _read_text(path)
    found = FileValues()
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is not None:
            _read_sections(loader, root, found=found, name=path.name)
    except yaml.MarkedYAMLError as exc:
        raise ConfigError(_describe(exc, path.name)) from exc
    except (yaml.YAMLError, ValueError) as exc:  # a character that YAML forbids; a date that is none
        raise ConfigError(f"{path.name} is not YAML: {exc}") from exc
    except RecursionError as exc:
        raise ConfigError(f"{path.name} is nested too deeply") from exc
    return found


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError(f"settings file {path} is larger than {MOST_BYTES} bytes")
        return content.decode("utf-8-sig")
    except OSError as exc:
        raise ConfigError(f"settings file {path} cannot be read: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"settings file {path} is not UTF-8 text") from exc


def _read_sections(loader: _Loader, root: yaml.Node, *, found: FileValues, name: str) -> None:
    for section, node, line in _list_items(root, found, path="", name=name):
        if section not in SECTIONS:
            found.values[section] = (loader.construct_object(node, deep=True), line)
        elif node.tag != EMPTY:  # a section whose lines are all comments
            for key, value, value_line in _list_items(node, found, path=f"{section}.", name=name):
                found.values[f"{section}.{key}"] = (loader.construct_object(value, deep=True), value_line)


def _list_items(node: yaml.Node, found: FileValues, *, path: str, name: str) -> Iterator[tuple[str, yaml.Node, int]]:
    """The keys of a mapping with their values and lines. What is no mapping, or stands twice, is a problem."""
    if not isinstance(node, yaml.MappingNode):
        what = path.rstrip(".") or "everything"
        found.problems.append(f"{what} in {name}:{node.start_mark.line + 1} must be a mapping of names to values")
        return
    lines: dict[str, int] = {}
    for key_node, value in node.value:
        key, line = str(key_node.value), key_node.start_mark.line + 1
        if key in lines:
            found.problems.append(f"{path}{key} stands twice in {name}, at lines {lines[key]} and {line}")
        lines[key] = line
        yield key, value, line


def _describe(error: yaml.MarkedYAMLError, name: str) -> str:
    line = f":{error.problem_mark.line + 1}" if error.problem_mark is not None else ""
    return f"{name}{line} is not YAML: {error.problem or error}"
