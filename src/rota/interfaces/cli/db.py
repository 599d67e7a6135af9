"""`rota db`: the schema of the store."""

import asyncio
from pathlib import Path

import click

from rota.interfaces.cli.errors import CheckFailedError
from rota.interfaces.cli.options import config_option, load_settings, read_changes, set_option
from rota.interfaces.cli.output import spinner


@click.group()
def db() -> None:
    """Look after the store's schema."""


@db.command()
@config_option
@set_option
def upgrade(config: Path | None, *, changes: tuple[str, ...]) -> None:
    """Bring the schema to this release, if the store has one."""
    from rota.config.schema import has_schema, upgrade_schema

    settings = load_settings(config, read_changes(changes)).settings
    if not has_schema(settings):
        click.echo("this store has no schema: there is nothing to do")
        return
    with spinner("the schema is being upgraded"):
        now = asyncio.run(upgrade_schema(settings))
    click.echo(f"schema is at {now.current}")


@db.command()
@config_option
@set_option
def status(config: Path | None, *, changes: tuple[str, ...]) -> None:
    """Say where the schema stands."""
    from rota.config.schema import read_schema

    now = asyncio.run(read_schema(load_settings(config, read_changes(changes)).settings))
    click.echo(f"schema is at {now.current or 'nothing'}, this release has {now.newest}")


@db.command()
@config_option
@set_option
def check(config: Path | None, *, changes: tuple[str, ...]) -> None:
    """Fail unless the schema is that of this release."""
    from rota.config.schema import read_schema

    now = asyncio.run(read_schema(load_settings(config, read_changes(changes)).settings))
    if not now.is_current:
        problem = f"schema is at {now.current or 'nothing'}, this release needs {now.newest}"
        raise CheckFailedError(problem, fix="rota db upgrade")
    click.echo(f"schema is at {now.current}")
