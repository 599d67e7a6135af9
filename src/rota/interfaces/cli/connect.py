"""From a command to the server: which one is meant, with which token, and looking at it again and again."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.domain.durations import parse_duration
from rota.interfaces.cli.output import is_terminal
from rota.interfaces.cli.text import safe

if TYPE_CHECKING:
    from rota.client.blocking import Client
    from rota.client.exchange import Retrying
    from rota.client.place import Place

Command = TypeVar("Command", bound=Callable[..., Any])

TIMEOUT = "ROTA_TIMEOUT"  # how long a command waits for its answer, over all tries
USUAL_TIMEOUT = "30s"
ALONE = "memory"  # the coordinator of an installation that is one process, which no other can join
CONNECT_WITHIN = timedelta(seconds=2)  # whoever typed a command is not to wait for a server that is not there
REFRESH = timedelta(seconds=2)


def server_option(command: Command) -> Command:
    """`--url`, on every command that asks a server."""
    known = "ROTA_URL, the rota dev of this folder, or http://127.0.0.1:8420"
    return click.option("--url", metavar="URL", help=f"The server.  [default: {known}]")(command)


def watch_option(command: Command) -> Command:
    """`--watch`, on every list."""
    return click.option("-w", "--watch", is_flag=True, help="Show it again every 2 seconds, until Ctrl-C.")(command)


def connect(url: str | None, *, timeout: str | None = None) -> "Client":
    """A client of the server that is meant."""
    from rota.client.blocking import Client

    within = timeout or parse_duration(TIMEOUT, os.environ.get(TIMEOUT, USUAL_TIMEOUT))
    return Client.at(choose_place(url, timeout=within), on_retry=_tell_retry)


def _tell_retry(retrying: "Retrying") -> None:
    """Whoever typed a command is not to wonder what it does."""
    left = f"trying again for up to {retrying.left:.0f} s ({TIMEOUT} says how long), Ctrl-C ends it"
    click.echo(f"{safe(str(retrying.problem))}; {left}", err=True)


def choose_place(url: str | None, *, timeout: str | timedelta) -> "Place":
    """Where the server is and what it is shown."""
    from rota.client.place import find_place

    place = find_place(url, None, timeout=timeout)
    # On this machine, where nobody listens nobody is on the way either.
    return replace(place, connect_within=timedelta(0) if place.is_local else CONNECT_WITHIN)


def repeat(show: Callable[[], None], *, watch: bool) -> None:
    """Show it once, or again and again; on a terminal each time on a clean screen."""
    while True:
        if watch and is_terminal():
            click.clear()
        show()
        if not watch:
            return
        pause(REFRESH)


def pause(duration: timedelta) -> None:
    """Wait; Ctrl-C ends it."""
    from rota.client.sync_wire import real_system

    real_system().clock.sleep(duration)
