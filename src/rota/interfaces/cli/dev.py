"""`rota dev`: all of Rota in one process, for a look around and for writing tasks, with nothing to set up.

It is as closed as any other server: a token is made at the first start and left in `.rota/token`, where the commands
of this folder find it.
"""

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.__about__ import __version__
from rota.domain.errors import ConfigError, UnauthenticatedError
from rota.interfaces.cli.connect import TOKEN_FILE
from rota.interfaces.cli.options import load_settings, read_changes, set_option, sources_of

if TYPE_CHECKING:
    from rota.application.services import Services
    from rota.config.process import ProcessPlan
    from rota.config.wiring import TunableFront

HOST = "127.0.0.1"
DATABASE = Path(".rota/rota.db")
SAMPLES = "rota.sdk.samples"
SAMPLE_TYPES = ("sample_hello", "sample_flaky", "sample_slow", "sample_primes")
USUAL_PORT = 8420
MOST_PORTS = 100


@click.command()
@click.argument("file", metavar="[FILE.py|MODULE]", required=False)
@click.option("--port", type=click.IntRange(0, 65535), help="Of the API.  [default: the setting api.port, 8420]")
@click.option("--ephemeral", is_flag=True, help="Keep nothing: the store is in memory.")
@set_option
def dev(file: str | None, port: int | None, *, ephemeral: bool, changes: tuple[str, ...]) -> None:
    """Run everything in one process, with your tasks or with samples. Data is in ./.rota; not for production.

    A port that is taken moves on to the next free one.
    """
    from rota.config.process import run_process

    given = read_changes(changes)
    chosen = find_port(load_settings(None, given).settings.api.port if port is None else port)
    flags = {
        "store.url": "memory://" if ephemeral else f"sqlite:///{DATABASE}",
        "coordinator.url": "memory://",
        "api.host": HOST,
        "api.port": str(chosen),
        "api.grpc_port": str(find_port(chosen + 1)) if chosen else "0",
        "worker.drain_timeout": "5s",
        **given,
    }
    run_process(_plan(file, flags))


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


def _plan(file: str | None, flags: dict[str, str]) -> "ProcessPlan":
    from rota.config.process import ProcessPlan
    from rota.config.wiring import Role
    from rota.interfaces.http.server import serve_http

    async def welcome(front: "TunableFront") -> None:
        services = front.services
        token = await _ensure_token(services)
        click.echo(_greeting(front.address, token, place=flags["store.url"], types=await _list_types(services)))
        if file is None:
            await _submit_samples(services)

    return ProcessPlan(
        load_settings(None, flags),
        sources_of(None, flags),
        app=file or SAMPLES,
        roles=(Role.API, Role.SCHEDULER, Role.WORKER),
        open_front=serve_http,
        welcome=welcome,
    )


async def _ensure_token(services: "Services") -> str:
    """The token that an earlier start left here, if the store still knows it; else a new one."""
    from rota.domain.access import Role
    from rota.domain.ids import DEFAULT_TENANT

    try:
        secret = TOKEN_FILE.read_text("utf-8").strip()
        await services.tokens.authenticate(secret)
    except (OSError, UnicodeDecodeError, UnauthenticatedError):
        _, secret = await services.tokens.issue(
            tenant_id=DEFAULT_TENANT, name="rota dev", role=Role.ADMIN, expires_in=None, actor=None
        )
        write_secret(TOKEN_FILE, secret)
    return secret


def write_secret(path: Path, secret: str) -> None:
    """For the eyes of this user alone, from the first moment on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secret + "\n")


async def _list_types(services: "Services") -> Sequence[str]:
    from rota.domain.ids import DEFAULT_TENANT

    return [config.type for config in await services.node.store.configs.list_page(DEFAULT_TENANT, limit=20)]


async def _submit_samples(services: "Services") -> None:
    from rota.domain.submission import Submission

    await services.submit.submit_many([Submission(type=name) for name in SAMPLE_TYPES])


def _greeting(address: str, token: str, *, place: str, types: Sequence[str]) -> str:
    where = "in memory, gone at the end" if place == "memory://" else place.removeprefix("sqlite:///")
    elsewhere = "" if address.endswith(f":{USUAL_PORT}") else f"export ROTA_URL={address}\n  "
    first = next((name for name in (SAMPLE_TYPES[0], *types) if name in types), "TYPE")
    return f"""\
Rota {__version__} runs in this process. Ctrl-C ends it. Not for production: see rota server.

  API     {address}/api/v1
  Docs    {address}/docs
  Data    {where}
  Types   {", ".join(types) or "none yet"}
  Token   (also in {TOKEN_FILE}, where commands in this folder find it)
{token}

Next, in another terminal in this folder:
  {elsewhere}rota task submit {first} --wait
  rota task ls
  rota top
"""
