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
PLACE_FILE = Path(".rota/serving")  # the process that serves this folder, and where; it may be of one that has ended
MOST_TOKEN_BYTES = 4096
MOST_PLACE_BYTES = 4096
CONNECT_WITHIN = timedelta(seconds=2)  # whoever typed a command is not to wait for a server that is not there
REFRESH = timedelta(seconds=2)


def server_option(command: Command) -> Command:
    """`--url`, on every command that asks a server."""
    known = "ROTA_URL, the rota dev of this folder, or http://127.0.0.1:8420"
    return click.option("--url", metavar="URL", help=f"The server.  [default: {known}]")(command)


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

    named = url or os.environ.get("ROTA_URL") or find_served()
    place = find_place(named, None, timeout=timeout)
    if not place.is_local:
        return replace(place, connect_within=CONNECT_WITHIN)
    # On this machine, where nobody listens nobody is on the way either.
    return replace(find_place(named, find_token(), timeout=timeout), connect_within=timedelta(0))


def find_served() -> str | None:
    """Where the `rota dev` of this folder serves, while it runs.

    It serves this machine alone: a folder that came from elsewhere must not send a token of the environment away.
    """
    from rota.client.place import find_place
    from rota.domain.errors import ConfigError

    process, address = read_place_file()
    if not address or not _is_running(process):
        return None
    try:
        return address if find_place(address, "", timeout="1s").is_local else None
    except ConfigError:
        return None


def _is_running(process: str) -> bool:
    """Whether it is a process of this user."""
    if not (process.isascii() and process.isdigit() and int(process[:20])):
        return False
    try:
        os.kill(int(process[:20]), 0)
    except (OSError, OverflowError):
        return False
    return True


def read_place_file() -> tuple[str, str]:
    """The process that a server for development said it is, and its URL; both are empty where none did."""
    try:
        with PLACE_FILE.open(encoding="utf-8") as file:
            process, _, address = file.read(MOST_PLACE_BYTES).strip().partition(" ")
    except (OSError, UnicodeDecodeError):
        return "", ""
    return process, address


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
