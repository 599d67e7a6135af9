"""A command as it was typed, so that what to try next repeats what was said with it."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WITH_VALUE = ("--config", "--set", "--app", "--url")
SHARED = {  # commands that take settings as the others do, and which of the options
    "rota settings check": ("--config", "--set"),
    "rota settings show --origin": ("--config", "--set"),
    "rota doctor": ("--config", "--set", "--url"),
    "rota db upgrade": ("--config",),
}
_SECRET = re.compile(r"://[^/]*@|secret|passw|token|_key", re.IGNORECASE)  # is not written down a second time


@dataclass(frozen=True, slots=True)
class Typed:
    """`rota task cancel`, the first of what stood behind it, and all words after `rota`."""

    command: str = "rota"
    subject: str = ""
    words: tuple[str, ...] = ()

    def again(self, more: str = "", *, without: str = "") -> str:
        """The same with something more, or without one of its options."""
        replaced = {word.partition("=")[0] for word in more.split()}  # `api.port` of `--set api.port=1`
        kept = [
            word
            for name, words in self._pieces()
            if name != without and words[-1].removeprefix("--set=").partition("=")[0] not in replaced - {"--set"}
            for word in words
        ]
        line = shlex.join(["rota", *kept]) if self.words else self.command
        return f"{line} {more}" if more else line

    def beside(self, other: str) -> str:
        """Another command, which is to look at the same place with the same settings."""
        wanted = SHARED.get(other, ())
        kept = [word for name, words in self._pieces() if name in wanted for word in words]
        return f"{other} {shlex.join(kept)}" if kept else other

    def find(self, option: str) -> str | None:
        """What the option was given, if it was."""
        given = [words[-1].removeprefix(f"{option}=") for name, words in self._pieces() if name == option]
        return given[-1] if given else None

    def names_absent_file(self) -> bool:
        """Whether its settings are to come from a file that is not there."""
        file = self.find("--config")
        return file is not None and not Path(file).exists()

    def _pieces(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each option with its value, each other word alone; none that holds a secret."""
        words = iter(self.words)
        for word in words:
            name, has_value, _ = word.partition("=")
            if name not in WITH_VALUE:
                yield word, (word,)
                continue
            piece = (word,) if has_value else (word, next(words, ""))
            if not _SECRET.search(piece[-1]):
                yield name, piece
