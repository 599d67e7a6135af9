"""What a command line is for, as a name: the script that it runs, and not what only leads there."""

import re
from collections.abc import Iterator

from rota.interfaces.cli.imports.translation import type_of

_STEPS = re.compile(r"&&|\|\||[;|]")
_LEADS_THERE = {
    *("cd", "test", "[", "[[", "echo", "printf", "export", "source", ".", "set", "sleep", "true", "false", "umask"),
    *("ulimit", "mkdir", "touch", "date", "wait"),
}
_RUNS_ANOTHER = {
    *("sudo", "env", "nice", "ionice", "nohup", "timeout", "flock", "time", "exec", "command", "setsid", "chronic"),
    *("chrt", "taskset", "cronic", "run-parts", "xargs", "sh", "bash", "dash", "zsh", "ksh", "python", "python2"),
    *("python3", "php", "perl", "ruby", "node", "java"),
}
_WITH_A_VALUE = ("-u", "-g", "-cp", "-classpath")  # of these
_NO_PROGRAM = re.compile(r"-.*|\d+[smhd]?|[A-Za-z_]\w*=.*")  # behind one: an option, a number, a setting
_WORDS_OF_SHELLS = ("if", "then", "else", "do", "!", "fi", "done")


def name_of_command(command: str) -> str:
    """A name for a type: that of a script or module, or else of the first program."""
    found = [name for step in _STEPS.split(command) if (name := _program_of(step))]
    wanted = (name for name in found if name not in _LEADS_THERE)
    return type_of(next(wanted, found[0] if found else ""))


def _program_of(step: str) -> str:
    """What one step runs, behind all that only runs another."""
    runner, words = "", _words_of(step)
    for word in words:
        name = word.rpartition("/")[2]
        if (runner or "=" in word.partition("/")[0]) and _NO_PROGRAM.fullmatch(word):
            if word in _WITH_A_VALUE:
                next(words, "")
        elif runner == "flock":
            runner = "sh"  # this was its file
        elif name in _RUNS_ANOTHER:
            runner = name
        else:
            return name
    return runner


def _words_of(step: str) -> Iterator[str]:
    words = (word.strip("\"'(){}") for word in step.split())
    return (word for word in words if word and word not in _WORDS_OF_SHELLS)
