"""What a command says when it fails, and with which exit code: nearest base class wins."""

import click
from click.exceptions import NoArgsIsHelpError

from rota.domain.errors import (
    ConfigError,
    ConflictError,
    FencedError,
    InvalidError,
    NotFoundError,
    RotaError,
    UnavailableError,
)

OK, FAILURE, USAGE, NOT_FOUND, CONFLICT, UNAVAILABLE, DENIED = range(7)

EXIT_CODES: dict[type[RotaError], int] = {
    InvalidError: USAGE,
    ConfigError: USAGE,
    NotFoundError: NOT_FOUND,
    ConflictError: CONFLICT,
    FencedError: CONFLICT,
    UnavailableError: UNAVAILABLE,
    RotaError: FAILURE,
}
HINTS: dict[int, str] = {
    FAILURE: "rota settings check",
    USAGE: "the same command with --help",
    NOT_FOUND: "list what there is, then repeat with a name or id from it",
    CONFLICT: "look at the present state, then decide again",
    UNAVAILABLE: "again once the server runs and can be reached; rota settings show --origin says which one is meant",
}


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


def report(error: RotaError) -> int:
    """Say what went wrong and what to try; the exit code."""
    code = exit_code_for(error)
    if isinstance(error, ConfigError | CheckFailedError):
        _say(error.problem, error.fix or "rota settings show --origin")
    else:
        _say(str(error), HINTS[code])
    return code


def report_usage(error: click.ClickException) -> int:
    """The same for a command line that makes no sense; a bare group shows what it has."""
    if isinstance(error, NoArgsIsHelpError):
        click.echo(error.format_message())
        return USAGE
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context is not None else "rota"
    _say(error.format_message(), f"{command} --help")
    return USAGE if isinstance(error, click.UsageError) else FAILURE


def _say(problem: str, attempt: str) -> None:
    for line in problem.splitlines():
        click.echo(f"error: {line}", err=True)
    click.echo(f"try: {attempt}", err=True)
