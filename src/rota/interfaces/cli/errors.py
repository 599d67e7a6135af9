"""What a command says when it fails, and with which exit code: nearest base class wins."""

from dataclasses import dataclass

import click
from click.exceptions import NoArgsIsHelpError

from rota.domain.errors import (
    ConfigError,
    ConflictError,
    DeniedError,
    FencedError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
    RotaError,
    UnauthenticatedError,
    UnavailableError,
)
from rota.interfaces.cli.refused import advise
from rota.interfaces.cli.text import safe

OK, FAILURE, USAGE, NOT_FOUND, CONFLICT, UNAVAILABLE, DENIED = range(7)

EXIT_CODES: dict[type[RotaError], int] = {
    InvalidError: USAGE,
    ConfigError: USAGE,
    NotFoundError: NOT_FOUND,
    ConflictError: CONFLICT,
    FencedError: CONFLICT,
    UnavailableError: UNAVAILABLE,
    RateLimitedError: UNAVAILABLE,
    UnauthenticatedError: DENIED,
    DeniedError: DENIED,
    RotaError: FAILURE,
}
LISTS = {  # where to find what there is
    "task": "rota task ls",
    "task_config": "rota config-type ls",
    "worker": "rota worker ls",
    "token": "rota token ls",
}


PROGRAMS = ("rota", "pip", "python")  # a fix that begins with one of these can be typed as it is
UNREACHED = "server_unreachable"  # as the client calls it
GETTERS = ("rota task", "rota config-type", "rota worker")


class CheckFailedError(RotaError):
    """What was to be checked is not so."""

    code = "check_failed"

    def __init__(self, problem: str, *, fix: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix


def exit_code_for(error: RotaError) -> int:
    """The code that scripts can rely on."""
    return next(EXIT_CODES[cls] for cls in type(error).__mro__ if cls in EXIT_CODES)


@dataclass(frozen=True, slots=True)
class Typed:
    """A command as it was typed: `rota task cancel`, and the first of what stood behind it."""

    command: str = "rota"
    subject: str = ""


def report(error: RotaError, typed: Typed | None = None) -> int:
    """Say what went wrong and what to type next; the exit code."""
    known = typed or Typed()
    if exit_code_for(error) == DENIED:
        _say(*advise(error, role=_role_for(known)))
    elif not isinstance(error, ConfigError | CheckFailedError):
        _say(str(error), _next_command(error, known))
    elif error.fix.startswith("--app ") or error.fix == known.command:  # which is what was typed
        _say(error.problem, f"{known.command} --help")
    elif error.fix.startswith("--set "):
        _say(error.problem, f"{known.command} {error.fix}")
    elif error.fix.partition(" ")[0] in PROGRAMS:
        _say(error.problem, error.fix)
    else:
        _say(f"{error.problem}; {error.fix}" if error.fix else error.problem, "rota settings show --origin")
    return exit_code_for(error)


def report_usage(error: click.ClickException, typed: Typed) -> int:
    """The same for a command line that makes no sense; a bare group shows what it has."""
    if isinstance(error, NoArgsIsHelpError):
        click.echo(error.format_message())
        return USAGE
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = typed.command if context is None else context.command_path  # click does not always know it
    _say(error.format_message(), f"{command} --help")
    return USAGE if isinstance(error, click.UsageError) else FAILURE


def report_failure(problem: str, attempt: str) -> int:
    """What was asked for did not come about."""
    _say(problem, attempt)
    return FAILURE


def _next_command(error: RotaError, typed: Typed) -> str:
    code = exit_code_for(error)
    if code == NOT_FOUND and (kind := error.code.removesuffix("_not_found")) in LISTS:
        return LISTS[kind]
    if code == CONFLICT:
        group = " ".join(typed.command.split()[:2])
        return f"{group} get {typed.subject}" if group in GETTERS and typed.subject else "rota cluster"
    if error.code == UNREACHED:
        return "rota dev"
    return f"{typed.command} --help" if code in (USAGE, NOT_FOUND) else "rota doctor"


def _role_for(typed: Typed) -> str:
    return "admin" if typed.command.startswith(("rota token", "rota audit")) else "operator"


def _say(problem: str, attempt: str) -> None:
    for line in problem.splitlines():
        click.echo(f"error: {safe(line)}", err=True)
    click.echo(f"try: {safe(attempt)}", err=True)
