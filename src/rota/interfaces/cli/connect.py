"""From a command to the server: which one is meant, with which token, and looking at it again and again."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.interfaces.cli.output import is_terminal

if TYPE_CHECKING:
    from rota.client.blocking import Client
    from rota.client.place import Place

Command = TypeVar("Command", bound=Callable[..., Any])

TOKEN_FILE = Path(".rota/token")  # where a server for development leaves one
MOST_TOKEN_BYTES = 4096
CONNECT_WITHIN = timedelta(seconds=2)  # whoever typed a command is not to wait for a server that is not there
REFRESH = timedelta(seconds=2)


def server_option(command: Command) -> Command:
    """`--url`, on every command that asks a server."""
    option = click.option("--url", metavar="URL", help="The server.  [default: ROTA_URL, or http://127.0.0.1:8420]")
    return option(command)


def watch_option(command: Command) -> Command:
    """`--watch`, on every list."""
    return click.option("-w", "--watch", is_flag=True, help="Show it again every 2 seconds, until Ctrl-C.")(command)


def connect(url: str | None, *, timeout: str = "30s") -> "Client":
    """A client of the server that is meant."""
    from rota.client.blocking import Client

    return Client.at(choose_place(url, timeout=timeout))


def choose_place(url: str | None, *, timeout: str) -> "Place":
    """Where the server is and what it is shown. A token in this folder is for the server of this folder alone."""
    from rota.client.place import find_place

    place = find_place(url, None, timeout=timeout)
    if not place.is_local:
        return replace(place, connect_within=CONNECT_WITHIN)
    # On this machine, where nobody listens nobody is on the way either.
    return replace(find_place(url, find_token(), timeout=timeout), connect_within=timedelta(0))


def find_token() -> str | None:
    """`ROTA_TOKEN`, or the one that a server for development left in this folder; None leaves it to the client."""
    return None if os.environ.get("ROTA_TOKEN") else read_token_file()


def read_token_file() -> str | None:
    """What a server for development left in this folder, if one did."""
    try:
        with TOKEN_FILE.open(encoding="utf-8") as file:
            return file.read(MOST_TOKEN_BYTES).strip()
    except (OSError, UnicodeDecodeError):
        return None


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
