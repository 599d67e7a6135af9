"""What people say to the executor: in task configs which statement to run, in a file of the worker what that is.

Whoever may define types of tasks chooses among the statements that whoever runs the worker wrote down; so neither SQL
nor the password of a database ever stands in a task config.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rota.domain.checks import check_name, check_number
from rota.domain.errors import ConfigError, InvalidError
from rota.domain.task import Task

FILE_VARIABLE, USUAL_FILE = "SQL_EXECUTOR_FILE", "sql.toml"
SCHEMES = ("sqlite", "postgresql")
MOST_ROWS = 1000
TASK_ID = "task.id"  # a parameter that is not of the payload: the same for all attempts at a task


class MissingParameterError(Exception):
    """The payload lacks what the statement needs."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the part `executor` of a task config says."""

    statement: str
    max_rows: int


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One that may be run: `$1` in it is the first of its parameters, which are keys of the payload."""

    database: str
    sql: str
    parameters: tuple[str, ...] = ()

    def pick(self, task: Task) -> list[Any]:
        """The values of the parameters, in their order."""
        payload = json.loads(task.spec.payload)
        known = {TASK_ID: str(task.spec.id), **(payload if isinstance(payload, dict) else {})}
        missing = [name for name in self.parameters if name not in known]
        if missing:
            raise MissingParameterError(f"the payload has no {', '.join(missing)}")
        return [known[name] for name in self.parameters]


class SqlFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All databases and statements of this worker."""

    databases: dict[str, str] = {}
    statements: dict[str, Statement] = {}


def check_config(executor: Mapping[str, Any]) -> None:
    """The entry point of `rota.executor_checks`: called when a task config is put, in a process without our file."""
    read_wish(executor)


def read_wish(executor: Mapping[str, Any]) -> Wish:
    """What a task config says, or `InvalidError` with the field that is wrong."""
    for key in executor:
        if key not in ("statement", "max_rows"):
            raise InvalidError(f"executor.{key}", "is not known here")
    statement = check_name("executor.statement", executor.get("statement"))
    return Wish(statement, check_number("executor.max_rows", executor.get("max_rows", 100), least=1, most=MOST_ROWS))


def read_file(environment: Mapping[str, str] = os.environ) -> SqlFile:
    """The file of this worker. One that was not asked for need not be there: then there is nothing to run."""
    path = Path(environment.get(FILE_VARIABLE, USUAL_FILE))
    if FILE_VARIABLE not in environment and not path.exists():
        return SqlFile()
    try:
        file = msgspec.convert(tomllib.loads(path.read_text("utf-8")), SqlFile)
    except (OSError, ValueError) as exc:  # a mistake in TOML, in UTF-8 or in what is allowed is a ValueError
        raise ConfigError(f"{path} cannot be used: {exc}") from exc
    for name, url in file.databases.items():
        if url.partition("://")[0] not in SCHEMES:
            raise ConfigError(f"{path}: databases.{name} must begin with one of {', '.join(SCHEMES)} and ://")
    for name, statement in file.statements.items():
        if statement.database not in file.databases:
            raise ConfigError(f"{path}: statements.{name}: there is no database {statement.database!r}")
    return file
