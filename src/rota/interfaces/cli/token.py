"""`rota token`: who may ask."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from rota.interfaces.cli.connect import connect, repeat, server_option, watch_option
from rota.interfaces.cli.options import config_option, load_settings, read_changes, set_option
from rota.interfaces.cli.output import is_terminal, output_option, show_list, show_one
from rota.interfaces.cli.tables import TOKENS
from rota.interfaces.cli.text import cell, safe

if TYPE_CHECKING:
    from rota.config.settings import Settings
    from rota.wire.access import NewToken

ROLES = ("viewer", "operator", "admin")


@click.group()
def token() -> None:
    """Make tokens, list them, end them."""


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="viewer", help="What it may do.  [default: viewer]")
@click.option("--expires-in", metavar="DURATION|never", default="90d", help="How long it lives.  [default: 90d]")
@click.option("--direct", is_flag=True, help="On the store itself: the first token, while there is none to ask with.")
@config_option
@set_option
@output_option
@server_option
def create(name: str, role: str, *, output: str, url: str | None, **given: Any) -> None:
    """Make a token and print its secret, this once. With --direct, --config or --set the store is asked, no server."""
    life: str | None = None if given["expires_in"] == "never" else given["expires_in"]
    if given["direct"] or given["config"] is not None or given["changes"]:
        loaded = load_settings(given["config"], read_changes(given["changes"]))
        made = _issue(loaded.settings, name, role=role, expires_in=life)
    else:
        with connect(url) as client:
            made = client.tokens.create(name, role, expires_in=life)
    if output == "name":
        click.echo(made.token.id)
    elif output in ("json", "yaml"):
        show_one(made, TOKENS, output=output)
    else:
        until = f"until {cell(made.token.expires_at)}" if made.token.expires_at else "until it is revoked"
        click.echo(f"token {made.token.id} ({safe(name)}, {made.token.role}) is good {until}:", err=True)
        click.echo(made.secret)
        # Standard output is the secret alone, for scripts; what they log of the rest must not hold it.
        click.echo(f"to use it: export ROTA_TOKEN={made.secret if is_terminal() else '…'}", err=True)


@token.command()
@output_option
@watch_option
@server_option
def ls(output: str, *, watch: bool, url: str | None) -> None:
    """List the tokens, without their secrets."""
    with connect(url) as client:
        repeat(lambda: show_list(client.tokens.list(), TOKENS, output=output), watch=watch)


@token.command()
@click.argument("token_id", metavar="ID")
@server_option
def revoke(token_id: str, *, url: str | None) -> None:
    """End a token; within seconds it is good nowhere."""
    with connect(url) as client:
        client.tokens.revoke(token_id)
    click.echo(f"token {safe(token_id)} is revoked")


def _issue(settings: "Settings", name: str, *, role: str, expires_in: str | None) -> "NewToken":
    from rota.config.tokens import issue_token
    from rota.domain.durations import parse_duration
    from rota.wire.access import NewToken, Token

    life = None if expires_in is None else parse_duration("expires_in", expires_in)
    made, secret = asyncio.run(issue_token(settings, name, role=role, expires_in=life))
    shown = Token(
        id=made.id,
        name=made.name,
        role=made.role,
        tenant=made.tenant_id,
        created_at=made.created_at,
        expires_at=made.expires_at,
        revoked_at=made.revoked_at,
        last_used_at=made.last_used_at,
    )
    return NewToken(token=shown, secret=secret)
