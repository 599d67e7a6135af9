"""What a command says when it fails, and with which exit code: nearest base class wins."""

import os
from shlex import quote
from urllib.parse import urlsplit

import click
from click.exceptions import NoArgsIsHelpError

from rota.domain.access import Role
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
from rota.interfaces.cli.connect import choose_place
from rota.interfaces.cli.text import safe
from rota.interfaces.cli.typed import Typed

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
    "schedule": "rota schedule ls",
    "calendar": "rota calendar ls",
    "worker": "rota worker ls",
    "token": "rota token ls",
}
OWNERS = {  # what has it, of which the first argument says the name
    "task_config_revision": "rota config-type revisions",
}

PROGRAMS = ("rota", "pip", "python", "unset")  # a fix that begins with one of these can be typed as it is
UNREACHED, MISUNDERSTOOD, UNTRUSTED = "server_unreachable", "wrong_protocol", "untrusted_certificate"  # by the client
UNREADABLE = "unreadable_answer"
NOT_ASKED = (UNREACHED, MISUNDERSTOOD, UNTRUSTED)  # so nothing has changed
CHECK = "rota settings check"
SUBMIT = "rota task submit"
GETTERS = ("rota task", "rota config-type", "rota worker", "rota calendar")


class CheckFailedError(RotaError):
    """What was to be checked is not so, or what was asked for did not come about."""

    code = "check_failed"

    def __init__(self, problem: str, *, fix: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix


def exit_code_for(error: RotaError) -> int:
    """The code that scripts can rely on."""
    return next(EXIT_CODES[cls] for cls in type(error).__mro__ if cls in EXIT_CODES)


def report(error: RotaError, typed: Typed | None = None) -> int:
    """Say what went wrong and what to type next; the exit code."""
    known = typed or Typed()
    if exit_code_for(error) == DENIED:
        from rota.interfaces.cli.refused import advise

        _say(*advise(error, known, role=_role_for(error, known)))
    elif isinstance(error, ConfigError | CheckFailedError):
        _say(*_remedy(error, known))
    elif isinstance(error, UnavailableError) and error.fix:
        _say(str(error), error.fix)
    else:
        _say(str(error), suggest(error, known))
    return exit_code_for(error)


def _remedy(error: ConfigError | CheckFailedError, typed: Typed) -> tuple[str, str]:
    """The problem and the way out that came with it, as a command."""
    if error.fix == CHECK and typed.names_absent_file():
        return error.problem, typed.again(without="--config")
    if error.fix.startswith("--app ") or error.fix == typed.command:  # which is what was typed
        return error.problem, f"{typed.command} --help"
    if error.fix.startswith(("--set ", "--yes")):
        return error.problem, typed.again(error.fix)
    if error.fix.partition(" ")[0] in PROGRAMS:
        return error.problem, typed.beside(error.fix)
    return f"{error.problem}; {error.fix}" if error.fix else error.problem, typed.beside("rota settings show --origin")


def report_usage(error: click.ClickException, typed: Typed) -> int:
    """The same for a command line that makes no sense; a bare group shows what it has."""
    if isinstance(error, NoArgsIsHelpError):
        click.echo(error.format_message())
        return USAGE
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = typed.command if context is None else context.command_path  # click does not always know it
    _say(" ".join(error.format_message().split()), f"{command} --help")  # click writes choices on lines of their own
    return USAGE if isinstance(error, click.UsageError) else FAILURE


def suggest(error: RotaError, typed: Typed) -> str:
    """What to type next."""
    code = exit_code_for(error)
    kind = error.code.removesuffix("_not_found") if code == NOT_FOUND else ""
    if kind in LISTS or (kind in OWNERS and typed.subject):
        return typed.beside(LISTS.get(kind) or f"{OWNERS[kind]} {quote(typed.subject)}")
    if code == CONFLICT:
        return typed.beside(_look_at(error, typed))
    if error.code == UNREACHED:
        return _find_server(typed)
    if error.code == MISUNDERSTOOD:
        return _ask_elsewhere(error, typed)
    if error.code == UNTRUSTED:
        return "export SSL_CERT_FILE=…"
    if isinstance(error, InvalidError) and error.field == "--after":
        return typed.again(without=error.field)
    return f"{typed.command} --help" if code in (USAGE, NOT_FOUND) else typed.beside("rota doctor")


def _look_at(error: RotaError, typed: Typed) -> str:
    """What the present state is of what is in the way, or of what a command was for."""
    if isinstance(error, ConflictError) and error.task_id is not None:
        return f"rota task get {error.task_id}"
    if typed.command == SUBMIT:  # whose subject is a type
        return f"rota config-type get {quote(typed.subject)}"
    group = " ".join(typed.command.split()[:2])
    return f"{group} get {quote(typed.subject)}" if group in GETTERS and typed.subject else "rota cluster"


def _find_server(typed: Typed) -> str:
    """Where nobody listens: start one there if it is here and none runs in this folder, else ask the usual one."""
    from rota.client.place import find_served

    given, in_environment = typed.find("--url"), os.environ.get("ROTA_URL")
    if not (given or in_environment):
        return "rota dev"
    place, served = choose_place(given, timeout="1s"), find_served()
    other = None if served == place.url else served
    if other and given and in_environment:  # which would be asked next
        return typed.again(f"--url {quote(other)}", without="--url")
    if other or not place.is_local:
        return typed.without_url()
    port = urlsplit(place.url).port
    if not given:  # whoever exports where a server is has one, of which this folder may have the settings
        return "rota server" if port is None else f"rota server --set api.port={port}"
    return "rota dev" if port is None else f"rota dev --port {port}"


def _ask_elsewhere(error: RotaError, typed: Typed) -> str:
    """Where something else than the API answers: the same at the URL that perhaps was meant."""
    from rota.client.exchange import WrongProtocolError

    meant = error.meant if isinstance(error, WrongProtocolError) else None
    given = typed.find("--url")
    if given is None and "ROTA_URL" not in os.environ:
        return "rota dev"  # takes another port
    if meant is None:
        return typed.without_url()
    return f"export ROTA_URL={quote(meant)}" if given is None else typed.again(f"--url {quote(meant)}", without="--url")


def _role_for(error: RotaError, typed: Typed) -> str:
    if isinstance(error, DeniedError) and error.needed in list(Role):  # a server may say anything
        return error.needed
    return "admin" if typed.command.startswith(("rota token", "rota audit")) else "operator"


def _say(problem: str, attempt: str) -> None:
    for line in problem.splitlines():
        click.echo(f"error: {safe(line)}", err=True)
    click.echo(f"try: {safe(attempt)}", err=True)
