"""A token straight from the store: the first one of a cluster, while there is none to ask a server with."""

import getpass
from datetime import timedelta

from rota.application.audit import Actor
from rota.application.node import join
from rota.application.ports.metrics import NoMetrics
from rota.application.ports.system import System
from rota.application.tokens import Tokens
from rota.config.alone import sqlite_file
from rota.config.registry import Registries, Surroundings, scheme_of
from rota.config.schema import prepare_schema
from rota.config.settings import Settings
from rota.config.wiring import node_name
from rota.domain.access import AccessToken, Role
from rota.domain.errors import ConfigError
from rota.domain.ids import DEFAULT_TENANT
from rota.infrastructure.coordination.memory import memory_coordinator
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.infrastructure.telemetry.logging import leave_logging_to_the_program


def local_actor() -> Actor:
    """Who acts on the store itself, without a token: the user of this machine."""
    return Actor(tenant_id=DEFAULT_TENANT, name=f"local user {getpass.getuser()}")


async def issue_token(
    settings: Settings, name: str, *, role: str, expires_in: timedelta | None
) -> tuple[AccessToken, str]:
    """Make a token in the store that the settings name. No server need run, and those that do will know it."""
    if scheme_of(settings.store.url) == "memory":
        problem = "a memory:// store ends with its process, and the token with it"
        raise ConfigError(problem, fix="set store.url to the store of your servers")
    if (file := sqlite_file(settings.store.url)) is not None and not file.exists():
        problem = f"there is no store at {file} yet: run this where your servers run, with their settings"
        raise ConfigError(problem, fix="rota server")  # makes it
    leave_logging_to_the_program()  # to standard error: standard output is the secret's
    system = System(SystemClock(), SystemRandom())
    await prepare_schema(settings)
    open_store = Registries().stores.get(scheme_of(settings.store.url))
    async with open_store(Surroundings(settings, system.clock, system.random)) as store:
        # A token concerns no queue: the coordinator is not asked, and may be away.
        coordinator = memory_coordinator(system.clock)
        node = await join(node_name(settings), store, coordinator=coordinator, system=system, collector=NoMetrics())
        issue, by = Tokens(node).issue, local_actor()
        return await issue(tenant_id=by.tenant_id, name=name, role=Role(role), expires_in=expires_in, actor=by)
