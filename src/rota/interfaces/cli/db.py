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
    """Bring the schema to this release, if the store has one.

    One that a later release has made is left as it is."""
    from rota.config.schema import has_schema, tell_schema, upgrade_schema

    settings = load_settings(config, read_changes(changes)).settings
    if not has_schema(settings):
        click.echo("this store has no schema: there is nothing to do")
        return
    with spinner("the schema is being upgraded"):
        now = asyncio.run(upgrade_schema(settings))
    click.echo(f"schema is {tell_schema(now)}{': there is nothing to do' if now.is_later else ''}")


@db.command()
@config_option
@set_option
def status(config: Path | None, *, changes: tuple[str, ...]) -> None:
    """Say where the schema stands."""
    from rota.config.schema import read_schema, tell_schema

    now = asyncio.run(read_schema(load_settings(config, read_changes(changes)).settings))
    click.echo(f"schema is {tell_schema(now)}")


@db.command()
@config_option
@set_option
def check(config: Path | None, *, changes: tuple[str, ...]) -> None:
    """Fail unless this release can run on the schema.

    That is its own, or one that a later release has made."""
    from rota.config.schema import find_schema_problem, read_schema, tell_schema

    now = asyncio.run(read_schema(load_settings(config, read_changes(changes)).settings))
    if problem := find_schema_problem(now):
        raise CheckFailedError(problem.problem, fix=problem.fix)
    click.echo(f"schema is {tell_schema(now)}")
