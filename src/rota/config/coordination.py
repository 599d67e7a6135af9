"""The coordinator that the settings name, and what stands in for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.application.loop import Loops
from rota.application.ports.coordinator import Coordinator
from rota.config.registry import REDIS_SCHEMES, SQL_SCHEMES, Registries, Surroundings, open_fallback, scheme_of
from rota.domain.errors import ConfigError, UnavailableError
from rota.infrastructure.coordination.failover.coordinator import failover_coordinator
from rota.infrastructure.coordination.failover.switch import probe


async def check_welcome(around: Surroundings, registries: Registries) -> None:
    """Refuse to start where a Redis refuses us: the store would stand in for it for ever, as for one that is
    away. One that is away is no reason not to start."""
    told = around.settings.coordinator
    scheme = scheme_of(told.url)
    if scheme not in REDIS_SCHEMES:
        return
    async with registries.coordinators.get(scheme)(around) as coordinator:
        try:
            await probe(coordinator)
        except UnavailableError as exc:
            if exc.fix:
                raise ConfigError(f"coordinator.url, with the prefix {told.prefix}: {exc}", fix=exc.fix) from exc


@asynccontextmanager
async def open_coordinator(around: Surroundings, registries: Registries) -> AsyncIterator[Coordinator]:
    """The coordinator; where it is a server of its own, the store's database stands in while that is away."""
    scheme = scheme_of(around.settings.coordinator.url)
    async with registries.coordinators.get(scheme)(around) as primary:
        if scheme in ("memory", "sql") or scheme_of(around.settings.store.url) not in SQL_SCHEMES:
            yield primary
            return
        loops = Loops(around.clock, around.random, around.collector)
        async with open_fallback(around) as fallback, failover_coordinator(primary, fallback, loops=loops) as joined:
            yield joined
