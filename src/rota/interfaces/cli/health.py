"""`rota health`: what a container or a script asks before it trusts a server."""

import click

from rota.interfaces.cli.connect import choose_place, server_option


@click.command()
@server_option
def health(url: str | None) -> None:
    """Say whether a server is ready.

    It, its store and its coordinator answer, and it does not stop. Needs no token.
    """
    from rota.client.call import Call
    from rota.client.sync_wire import SyncWire, real_system

    place = choose_place(url, timeout="3s")
    wire = SyncWire(place, real_system())
    try:
        wire.send(Call(method="GET", path="/readyz", read=bytes))
    finally:
        wire.close()
    click.echo(f"{place.url} is ready")
