"""`rota dev`: all of Rota in one process, for a look around and for writing tasks, with nothing to set up.

It is as closed as any other server: a token is made at the first start and left in `.rota/token`, where the commands
of this folder find it; where nothing is kept, the token is not either.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from rota.client.folder import PLACE_FILE, TOKEN_FILE, read_place_file
from rota.domain.access import find_token_id
from rota.domain.errors import ConfigError, UnauthenticatedError
from rota.interfaces.cli.dev_banner import MEMORY, Banner
from rota.interfaces.cli.options import WholeNumber, load_settings, read_changes, set_option, sources_of
from rota.interfaces.cli.run import open_monitor

if TYPE_CHECKING:
    from rota.application.services import Services
    from rota.config.process import ProcessPlan
    from rota.config.wiring import TunableFront
    from rota.interfaces.cli.dev_service import SampleService
    from rota.sdk.tasks import TaskFunction

HOST = "127.0.0.1"
DATABASE = Path(".rota/rota.db")
OWN_STORE = f"sqlite:///{DATABASE}"
SAMPLES = "rota.sdk.samples"
ISSUED_AS = "rota dev"
MOST_PORTS = 100


@click.command()
@click.argument("file", metavar="[FILE.py|MODULE]", required=False)
@click.option("--port", type=WholeNumber(0, 65535), help="Of the API.  [default: the setting api.port, 8420]")
@click.option("--ephemeral", is_flag=True, help="Keep nothing: the store is in memory.")
@set_option
def dev(file: str | None, port: int | None, *, ephemeral: bool, changes: tuple[str, ...]) -> None:
    """Run everything in one process: your tasks, or samples. Data is in ./.rota; not for production.

    A port that is taken moves on to the next free one.
    """
    from rota.config.alone import InUseError
    from rota.config.process import run_process

    given = read_changes(changes)
    settings = load_settings(None, given).settings
    asked = settings.api.port if port is None else port
    chosen = find_port(asked)
    flags = {
        "store.url": MEMORY if ephemeral else OWN_STORE,
        "coordinator.url": "memory://",
        "api.host": HOST,
        "api.port": str(chosen),
        "api.grpc_port": str(find_port(chosen + 1)) if chosen else "0",
        "worker.drain_timeout": "5s",
        **given,
    }
    functions = load_tasks(file or SAMPLES)
    service = _open_service(file, flags)
    if service is not None:
        flags |= service.list_flags(settings.http)
    try:
        run_process(_plan(file, flags, asked_port=asked, functions=functions, service=service))
    except InUseError as error:
        raise _explain_use(error.holder) from error


def _explain_use(holder: str) -> ConfigError:
    address = find_address(holder)
    problem = f"Rota runs in this folder already, as {holder}{f' at {address}' if address else ''}"
    fix = f"rota task ls --url {quote(address)}" if address else "rota task ls"
    return ConfigError(f"{problem}; use that one, or another folder for a second", fix=fix)


def _open_service(file: str | None, flags: Mapping[str, str]) -> "SampleService | None":
    """Beside the samples, where its tasks are run by this process alone and can be run at all."""
    from rota.interfaces.cli.dev_service import can_call, open_service

    if file is not None or flags["store.url"] not in (OWN_STORE, MEMORY) or not can_call():
        return None
    ports = [int(flags[key]) for key in ("api.port", "api.grpc_port") if flags[key].isdigit()]
    return open_service(find_port(max(ports) + 1) if all(ports) else 0)


def _tell_place(address: str) -> None:
    PLACE_FILE.write_text(f"{os.getpid()} {address}\n", "utf-8")


def find_address(holder: str) -> str:
    """Where the process that runs here serves, if it was a `rota dev` that said so."""
    process, address = read_place_file()
    return address if f"process {process}" == holder else ""


def load_tasks(app: str) -> "Sequence[TaskFunction[..., Any]]":
    """What this process can run; without any there is nothing to see."""
    from rota.config.wiring import load_app
    from rota.sdk.app import AppRef
    from rota.sdk.tasks import REGISTRY

    load_app(AppRef(app))
    functions = tuple(REGISTRY)
    if not functions:
        problem = f'{app} has no task; write one in it: import rota, and @rota.task("hello") above a function'
        raise ConfigError(problem, fix=f"rota dev {app}")  # once that is done
    return functions


def find_port(first: int) -> int:
    """This port, or the next one that is free."""
    for port in range(first, min(first + MOST_PORTS, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise ConfigError(f"no port from {first} on is free", fix="rota dev --port 0")


def _plan(
    file: str | None,
    flags: dict[str, str],
    *,
    asked_port: int,
    functions: "Sequence[TaskFunction[..., Any]]",
    service: "SampleService | None",
) -> "ProcessPlan":
    from rota.config.process import ProcessPlan
    from rota.config.wiring import Role
    from rota.interfaces.cli.dev_samples import TICK, submit_samples
    from rota.interfaces.front import console_link, grpc_address, serve_dev

    async def welcome(front: "TunableFront") -> None:
        place = flags["store.url"]
        is_own = place == OWN_STORE
        token = await (_issue(front.services) if place == MEMORY else _ensure_token(front.services, is_own=is_own))
        if place != MEMORY:
            _tell_place(front.address)
        banner = Banner(address=front.address, token=token, place=place, functions=functions, asked_port=asked_port)
        words = "" if file is not None else _describe(service)
        called = "" if service is None else service.task_type
        banner = replace(banner, console=console_link(front, find_token_id(token) or ""))
        banner = replace(banner, service=words, service_type=called, scheduled_type="" if file else TICK.type)
        click.echo(replace(banner, grpc_address=grpc_address(front)))
        if file is None:
            await submit_samples(front.services, service)

    return ProcessPlan(
        load_settings(None, flags),
        sources_of(None, flags),
        app=file or SAMPLES,
        roles=(Role.API, Role.SCHEDULER, Role.WORKER),
        open_front=serve_dev,
        open_monitor=open_monitor,
        welcome=welcome,
        beside=() if service is None else (service.run,),
    )


def _describe(service: "SampleService | None") -> str:
    if service is not None:
        return f"http://{service.address}, which sample_http calls"
    from rota.interfaces.cli.dev_service import can_call

    return "" if can_call() else "none; to see a task over HTTP: pip install 'rota[http]'"


async def _ensure_token(services: "Services", *, is_own: bool) -> str:
    """The token that an earlier start left here, if the store still knows it; else a new one in place of the old.

    In a store that is not of this folder alone, tokens of the same name are those of somebody else.
    """
    try:
        secret = TOKEN_FILE.read_text("utf-8").strip()
        await services.tokens.authenticate(secret)
    except (OSError, UnicodeDecodeError, UnauthenticatedError):
        if is_own:
            await _revoke_lost(services)
        secret = await _issue(services)
        write_secret(TOKEN_FILE, secret)
    return secret


async def _issue(services: "Services") -> str:
    from rota.config.tokens import local_actor
    from rota.domain.access import Role
    from rota.domain.ids import DEFAULT_TENANT

    _, secret = await services.tokens.issue(
        tenant_id=DEFAULT_TENANT, name=ISSUED_AS, role=Role.ADMIN, expires_in=None, actor=local_actor()
    )
    return secret


async def _revoke_lost(services: "Services") -> None:
    """End the tokens of earlier starts: their secrets are where nobody looks any more, or where they should not be."""
    from rota.config.tokens import local_actor
    from rota.domain.ids import DEFAULT_TENANT

    after = ""
    while page := await services.tokens.list(DEFAULT_TENANT, after=after):
        for token in page:
            if token.name == ISSUED_AS and token.revoked_at is None:
                await services.tokens.revoke(token.id, DEFAULT_TENANT, actor=local_actor())
        after = page[-1].id


def write_secret(path: Path, secret: str) -> None:
    """For the eyes of this user alone, from the first moment on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secret + "\n")
