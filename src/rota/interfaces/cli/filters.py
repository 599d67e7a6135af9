"""Which tasks a command is for: the filters of lists and of bulk actions."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.domain.errors import InvalidError
from rota.domain.priority import parse_priority
from rota.domain.task import TaskStatus
from rota.interfaces.cli.text import cell

if TYPE_CHECKING:
    from rota.client.task_calls import TaskFilters

Command = TypeVar("Command", bound=Callable[..., Any])


class _Statuses(click.Choice[TaskStatus]):
    """States, in either case; told as they are shown everywhere."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return super().normalize_choice(choice, ctx).upper()


STATUSES = _Statuses([*TaskStatus], case_sensitive=False)


def filter_options(command: Command) -> Command:
    """The filters, on every command that is for many tasks."""
    options = [
        click.option("--status", "statuses", multiple=True, type=STATUSES, help="In this state; may be repeated."),
        click.option("--type", "types", multiple=True, metavar="TYPE", help="Of this type; may be repeated."),
        click.option(
            "--priority",
            "levels",
            multiple=True,
            metavar="0..9|normal|high|urgent",
            help="Of this level; may be repeated.",
        ),
        click.option("--worker", "worker_id", metavar="ID", help="Held by this worker."),
        click.option("--created-after", metavar="TIME", help="Created after this time."),
        click.option("--created-before", metavar="TIME", help="Created before this time."),
        click.option("-q", "--query", "q", metavar="TEXT", help="With this text in the name or the type."),
        click.option(
            "--metadata", "facts", multiple=True, metavar="KEY=VALUE", help="With this fact; may be repeated."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def read_filters(given: Mapping[str, Any]) -> "TaskFilters":
    """What the options said, without what they did not."""
    found = {
        "status": given["statuses"],
        "type": given["types"],
        "priority": [read_level("--priority", text) for text in given["levels"]],
        "worker": given["worker_id"],
        "created_after": read_time("--created-after", given["created_after"]),
        "created_before": read_time("--created-before", given["created_before"]),
        "q": given["q"],
        "metadata": read_pairs("--metadata", given["facts"]),
    }
    return {key: value for key, value in found.items() if value}  # type: ignore[return-value] # the keys of TaskFilters


def read_level(option: str, text: str) -> int:
    """A level by its number or its name."""
    return parse_priority(int(text) if text.isascii() and text.isdigit() else text, field=option)


def read_time(option: str, text: str | None) -> datetime | None:
    """A time with its zone, if one is given."""
    return None if text is None else read_moment(option, text)


def read_moment(option: str, text: str) -> datetime:
    """A time with its zone."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidError(option, f"{text!r} is not a time; write it like 2026-01-31T09:00:00Z") from exc
    if read.tzinfo is None:
        raise InvalidError(option, f"{text!r} needs a time zone, for example {read.isoformat()}Z")
    return read


@contextmanager
def in_options(names: Mapping[str, str]) -> Iterator[None]:
    """Let what the server says of its fields be said of the options that they came from."""
    try:
        yield
    except InvalidError as error:
        parts = [_in_options(one, names) for one in error.parts or (error,)]
        renamed = InvalidError.of(parts)
        renamed.args = ("\n".join(map(str, parts)),)
        raise renamed from error


def _in_options(error: InvalidError, names: Mapping[str, str]) -> InvalidError:
    if error.field not in names:
        return InvalidError(error.field, error.problem)
    problem = re.sub(r"\b\w+\b", lambda word: names.get(word[0], word[0]), error.problem)
    return InvalidError(names[error.field], problem)


def read_pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE`, several times."""
    pairs = [text.partition("=") for text in texts]
    for key, equals, _ in pairs:
        if not equals or not key:
            raise InvalidError(option, f"{key!r} has no value; write it as {key or 'KEY'}=VALUE")
    return {key: value for key, _, value in pairs}


def describe(filters: "TaskFilters") -> str:
    """The filters in words, for the question whether they are meant."""
    return ", ".join(f"{key} {cell(value).replace(',', ' or ')}" for key, value in filters.items())
