"""When a worker has a deputy, and what it is made from (ADR-0016)."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from rota.application.ports.store import Store, WorkerRegistry
from rota.application.work import watchdog
from rota.application.work.deputy import DeputyPlan
from rota.config.registry import Registries, Surroundings, scheme_of
from rota.infrastructure.aside import OwnLoop


def plan_deputy(
    around: Surroundings, registries: Registries, *, end_process: Callable[[], None] | None
) -> DeputyPlan | None:
    """None where it would be of no use, or could not be: a scheduler in this process is held up as well, a store in
    memory cannot be opened twice, and one that the program itself has added may live on the program's own loop."""
    store, coordinator = scheme_of(around.settings.store.url), scheme_of(around.settings.coordinator.url)
    if "memory" in (store, coordinator) or registries.stores.is_registered(store):
        return None
    return DeputyPlan(
        aside=OwnLoop("rota-deputy"),
        open_registry=lambda: _open_registry(registries.stores.get(store)(around)),
        end_process=end_process,
        stuck_after=watchdog.STUCK_AFTER,
    )


@asynccontextmanager
async def _open_registry(opening: AbstractAsyncContextManager[Store]) -> AsyncIterator[WorkerRegistry]:
    async with opening as store:
        yield store.workers
