"""What a `rota dev` leaves in its folder: where it serves, and a token for it. Commands and clients look here."""

import os
from pathlib import Path

TOKEN_FILE = Path(".rota/token")
PLACE_FILE = Path(".rota/serving")  # the process that serves this folder, and where; it may be of one that has ended
MOST_TOKEN_BYTES = 4096
MOST_PLACE_BYTES = 4096


def find_running() -> str | None:
    """The address that a process which runs has left in this folder."""
    process, address = read_place_file()
    return address if address and _is_running(process) else None


def read_place_file() -> tuple[str, str]:
    """The process that a server for development said it is, and its URL; both are empty where none did."""
    try:
        with PLACE_FILE.open(encoding="utf-8") as file:
            process, _, address = file.read(MOST_PLACE_BYTES).strip().partition(" ")
    except (OSError, UnicodeDecodeError):
        return "", ""
    return process, address


def read_token_file() -> str | None:
    """What a server for development left in this folder, if one did."""
    try:
        with TOKEN_FILE.open(encoding="utf-8") as file:
            return file.read(MOST_TOKEN_BYTES).strip()
    except (OSError, UnicodeDecodeError):
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
