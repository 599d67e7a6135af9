"""How things are printed: a table for people, JSON, YAML or names for programs.

On a terminal a table has colours and fits the window; elsewhere it is plain columns that `awk` can read.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.domain.errors import ConfigError
from rota.interfaces.cli.text import cell, compact, is_safe, safe, safe_json, safe_lines

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Command = TypeVar("Command", bound=Callable[..., Any])

YES = "--yes"  # of every command that asks
PRINTED = "How it is printed.  [default: table]"
A_LINE_EACH = "How it is printed; json is a line each.  [default: table]"
FORMS = ("table", "wide", "json", "yaml", "name")
COLOURS = {
    "SUCCESS": "green",
    "FAILED": "red",
    "TIMEOUT": "red",
    "PROCESSING": "cyan",
    "RETRYING": "yellow",
    "CANCELLED": "dim",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its head, and what stands in it."""

    title: str
    value: Callable[[Any], Any]
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """How things of one kind are listed. `name` is what other commands call one of them by."""

    columns: Sequence[Column]
    name: Callable[[Any], str]
    empty: str = ""  # what to say where there are none


def output_option(command: Command) -> Command:
    """`-o`, on every command that shows something."""
    option = click.option("-o", "--output", type=click.Choice(FORMS), default="table", help=PRINTED)
    return option(command)


def show_list(items: Iterable[Any], table: Table, *, output: str, limit: int | None = None) -> None:
    """Print things of one kind, no more than the limit; says when there are more."""
    found = list(items if limit is None else islice(items, limit + 1))
    shown = found if limit is None else found[:limit]
    match output:
        case "json":
            _echo_json([document(item) for item in shown])
        case "yaml":
            _echo_yaml([document(item) for item in shown])
        case "name":
            for item in shown:
                click.echo(safe(table.name(item)))
        case _:
            print_rows(shown, table, is_wide=output == "wide")
            if table.empty and not shown:
                click.echo(table.empty, err=True)
    if len(found) > len(shown):
        click.echo(f"there are more than {limit}: --limit shows them", err=True)


def show_one(item: Any, table: Table, *, output: str) -> None:
    """Print one thing with all it has."""
    match output:
        case "json":
            _echo_json(document(item))
        case "yaml":
            _echo_yaml(document(item))
        case "name":
            click.echo(safe(table.name(item)))
        case _:
            _print_fields(document(item))


def is_terminal() -> bool:
    """Whether somebody looks at what is printed."""
    return sys.stdout.isatty()


def confirm(question: str) -> None:
    """Go on only if somebody says yes; a script says it beforehand."""
    try:
        is_meant = click.confirm(question, err=True)
    except click.Abort as exc:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)  # ends the line of the question
        raise ConfigError("nobody is there to answer, so nothing was done", fix=YES) from exc
    if not is_meant:
        click.echo("nothing was done", err=True)
        raise click.exceptions.Exit(1)


def spinner(text: str) -> AbstractContextManager[Any]:
    """A sign of life while something takes its time, where somebody looks."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.text import Text

    return Console(stderr=True).status(Text(text))


def restate(sign: Any, text: str) -> None:
    """Let a sign of life say something else: text, never markup."""
    from rich.text import Text

    sign.update(Text(safe(text)))


def document(item: Any) -> Any:
    """A thing as the API writes it: plain values, times with microseconds, durations as `_seconds`."""
    import msgspec

    plain = msgspec.to_builtins(item, builtin_types=(datetime, timedelta))
    return _written(plain)


def print_rows(items: Sequence[Any], table: Table, *, is_wide: bool = False) -> None:
    """The table itself."""
    columns = [column for column in table.columns if is_wide or not column.is_wide]
    rows = [[cell(column.value(item)) for column in columns] for item in items]
    titles = [column.title for column in columns]
    if is_terminal():
        from rich.console import Console

        Console().print(rich_table(titles, rows))
    else:
        click.echo("\n".join(_align([titles, *rows])))


def rich_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, is_short: bool = False) -> "RichTable":
    """A table in colours. Cells are text, never markup; `is_short` ends those that do not fit with … in their line."""
    from rich.table import Table as RichTable
    from rich.text import Text

    def shown(text: str, style: str = "") -> Text:
        return Text(text, style=style, no_wrap=is_short or None, overflow="ellipsis" if is_short else "fold")

    made = RichTable(box=None, pad_edge=False, header_style="bold")
    for place, title in enumerate(titles):
        made.add_column(shown(title), no_wrap=not place)  # an id is copied whole
    for row in rows:
        made.add_row(*(shown(text, COLOURS.get(text, "")) for text in row))
    return made


def _written(value: Any) -> Any:
    match value:
        case dict():
            return {
                f"{key}_seconds" if isinstance(inner, timedelta) else key: _written(inner)
                for key, inner in value.items()
            }
        case list():
            return [_written(inner) for inner in value]
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case _:
            return value


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _print_fields(fields: dict[str, Any]) -> None:
    width = max(map(len, fields))
    for key, value in fields.items():
        if isinstance(value, str) and "\n" in value:
            click.echo(f"{key}:")
            click.echo("\n".join(f"    {line}" for line in safe_lines(value)))
        elif isinstance(value, dict) and any(isinstance(inner, str) and "\n" in inner for inner in value.values()):
            click.echo(f"{key}:")
            _print_fields({f"  {name}": inner for name, inner in value.items()})
        else:
            text = compact(value) if isinstance(value, dict | list) else cell(value)
            click.echo(f"{key:<{width}}  {text}")


def _echo_json(value: Any) -> None:
    click.echo(safe_json(json.dumps(value, indent=2, ensure_ascii=False)))


def _echo_yaml(value: Any) -> None:
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    if not is_safe(text):  # only YAML's own escapes can say it
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False)
    click.echo(text, nl=False)
