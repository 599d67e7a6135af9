"""A command as it was typed, so that what to try next repeats what was said with it, and works when it is typed.

What is secret is not written down a second time: of a setting, the line begins with its environment variable, and `…`
stands where the secret goes (in the arguments of a process everybody on the machine could read it).
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import click

BLANK = "…"
SETTINGS = ("--config", "--set")
SERVER = ("--url",)
SHARED = {  # which of the options that say where to look a command takes, by how it begins; any other asks a server
    "rota settings": SETTINGS,
    "rota db": SETTINGS,
    "rota server": SETTINGS,
    "rota api": SETTINGS,
    "rota scheduler": SETTINGS,
    "rota worker --app": SETTINGS,  # to run one; to look after those that run, a server is asked
    "rota doctor": (*SETTINGS, *SERVER),
    "rota token create": SETTINGS,  # on the store itself
    "rota dev": (),
    "rota version": (),
    "rota completion": (),
    "rota": SERVER,
}


class Piece(NamedTuple):
    """An option with its value, or another word alone."""

    name: str
    value: str | None
    words: tuple[str, ...]

    def is_set_by(self, line: str) -> bool:
        """Whether the line gives the same setting another value."""
        return self.name == "--set" and f"--set {(self.value or '').partition('=')[0]}=" in line


@dataclass(frozen=True, slots=True)
class Typed:
    """`rota task cancel`, the first of what stood behind it, all words after `rota`, and its options with a value."""

    command: str = "rota"
    subject: str = ""
    words: tuple[str, ...] = ()
    valued: frozenset[str] = frozenset()

    def again(self, more: str = "", *, without: str = "") -> str:
        """The same with something more, or without one of its options."""
        kept = [piece for piece in self._pieces() if piece.name != without and not piece.is_set_by(more)]
        return _write("rota" if self.words else self.command, kept, more=more)

    def beside(self, other: str) -> str:
        """Another command, which is to look at the same place with the same settings."""
        if "--help" in other or not other.startswith("rota "):
            return other
        begin = max((begin for begin in SHARED if other.startswith(begin)), key=len)
        wanted = [option for option in SHARED[begin] if option == "--set" or f"{option} " not in other]
        kept = [piece for piece in self._pieces() if piece.name in wanted and not piece.is_set_by(other)]
        return _write(other, kept)

    def without_url(self) -> str:
        """The same to the server that is asked where none is named."""
        return "unset ROTA_URL" if self.find("--url") is None else self.again(without="--url")

    def find(self, option: str) -> str | None:
        """What the option was given, if it was."""
        given = [piece.value for piece in self._pieces() if piece.name == option]
        return given[-1] if given else None

    def names_absent_file(self) -> bool:
        """Whether its settings are to come from a file that is not there."""
        file = self.find("--config")
        return file is not None and not Path(file).exists()

    def _pieces(self) -> Iterator[Piece]:
        words = iter(self.words)
        for word in words:
            name, equals, value = word.partition("=")
            if name not in self.valued:
                yield Piece(word, None, (word,))
            elif equals:
                yield Piece(name, value, (word,))
            else:
                value = next(words, "")
                yield Piece(name, value, (word, value))


def read_typed(root: click.Group, arguments: Sequence[str]) -> Typed:
    """Which command it was, to name it in what is said about it."""
    context, command = click.Context(root), cast(click.Command, root)
    path, others, valued = ["rota"], list[str](), set[str]()
    words = iter(arguments)
    for word in words:
        if word.startswith("-") and word != "-":
            if word in valued:
                next(words, None)
        elif not others and isinstance(command, click.Group) and (inner := command.get_command(context, word)):
            path.append(word)
            command = inner
            valued.update(_list_valued(inner))
        else:
            others.append(word)
    return Typed(" ".join(path), others[0] if others else "", tuple(arguments), frozenset(valued))


def _list_valued(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.is_flag:
            yield from parameter.opts


def _write(command: str, pieces: Iterable[Piece], *, more: str = "") -> str:
    """The command line, with secrets left to be filled in."""
    from rota.config.load import cover, find_variable

    variables, words = list[str](), list[str]()
    for piece in pieces:
        if piece.value is None:
            words += piece.words
            continue
        covered = cover(piece.value, by=BLANK)
        key, _, value = covered.partition("=")
        variable = find_variable(key) if piece.name == "--set" and covered != piece.value else None
        if variable is not None:
            variables.append(f"{variable}={shlex.quote(value)} ")
        else:
            words += piece.words if covered == piece.value else (piece.name, covered)
    return "".join(variables) + " ".join(filter(None, (command, shlex.join(words), more)))
