"""What a command reads: a file, or standard input."""

import sys
from pathlib import Path

from rota.domain.errors import InvalidError

STANDARD_INPUT = "-"


def read_text(option: str, file: str, *, most: int) -> str:
    """What a file holds, or standard input for `-`. What cannot be read, or is more than can be meant, is refused."""
    try:
        text = sys.stdin.read(most + 1) if file == STANDARD_INPUT else _read(Path(file), most + 1)
    except OSError as exc:
        raise InvalidError(option, f"{file} cannot be read: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise InvalidError(option, f"{file} is not UTF-8 text") from exc
    if len(text) > most:
        raise InvalidError(option, f"{file} has more than {most} characters")
    return text


def _read(path: Path, most: int) -> str:
    with path.open(encoding="utf-8") as opened:
        return opened.read(most)
