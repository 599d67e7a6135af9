"""`rota settings`: which values hold, where they come from, and whether they are sound."""

import json
from pathlib import Path
from typing import Any

import click
import yaml

from rota.config.exposure import check_exposure
from rota.config.load import load
from rota.domain.setting import Setting, SettingSource
from rota.interfaces.cli.connect import connect, server_option
from rota.interfaces.cli.options import config_option, load_settings, read_changes, set_option, sources_of
from rota.interfaces.cli.output import output_option, show_list, show_one
from rota.interfaces.cli.tables import SETTINGS
from rota.interfaces.cli.text import safe


@click.group()
def settings() -> None:
    """Look at the settings and check them."""


@settings.command()
@config_option
@set_option
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="A form for programs.")
def show(config: Path | None, *, changes: tuple[str, ...], origin: bool, output: str | None) -> None:
    """Print every setting with its value; secrets are covered."""
    rows = load(
        sources_of(config, read_changes(changes))
    ).describe()  # a name that nobody knows is no reason not to show it
    if output is None:
        click.echo(_as_table(rows, origin=origin))
    else:
        values = _with_origins(rows) if origin else _nested(rows)
        click.echo(_as_json(values) if output == "json" else _as_yaml(values), nl=output == "json")


@settings.command()
@config_option
@set_option
def check(config: Path | None, *, changes: tuple[str, ...]) -> None:
    """Read all sources and say everything that is wrong with them."""
    loaded = load_settings(config, read_changes(changes))
    check_exposure(loaded.settings.api)
    count = sum(loaded.is_set(key) for key in loaded.origins)
    source = sources_of(config).find_file() or "no file"
    click.echo(f"settings are sound: {count} set, {len(loaded.origins) - count} by default ({source})")


@settings.command()
@output_option
@server_option
def server(output: str, *, url: str | None) -> None:
    """Print the settings in force in a server.

    Secrets are covered. Which node has answered stands below: others may have settings of their own.
    """
    with connect(url) as client:
        found = client.settings()
    if output in ("json", "yaml"):
        show_one(found, SETTINGS, output=output)
        return
    show_list(found.items, SETTINGS, output=output)
    if output != "name":
        click.echo(f"of {safe(found.node)}")


def _as_table(rows: list[Setting], *, origin: bool) -> str:
    cells = [(row.key, _as_line(row.value), row.origin) for row in rows]
    keys, values = (max(len(cell[column]) for cell in cells) for column in (0, 1))
    lines = [f"{key:<{keys}}  {value:<{values}}  {where if origin else ''}".rstrip() for key, value, where in cells]
    return "\n".join(lines)


def _as_line(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _nested(rows: list[Setting]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for row in rows:
        section, _, key = row.key.rpartition(".")
        (values.setdefault(section, {}) if section else values)[key] = row.value
    return values


def _with_origins(rows: list[Setting]) -> dict[str, Any]:
    return {
        row.key: {"value": row.value, "origin": row.origin, "is_set": row.source is not SettingSource.DEFAULT}
        for row in rows
    }


def _as_json(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False)


def _as_yaml(values: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    return text
