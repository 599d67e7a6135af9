"""When a worker has a deputy, and what it is made from (ADR-0016)."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from rota.application.ports.coordinator import Coordinator
from rota.application.work import watchdog
from rota.application.work.deputy import DeputyPlan, Witnesses
from rota.config.registry import Registries, Surroundings, scheme_of
from rota.infrastructure.aside import OwnLoop


def plan_deputy(
    around: Surroundings,
    registries: Registries,
    *,
    open_coordinator: Callable[[], AbstractAsyncContextManager[Coordinator]],
    end_process: Callable[[], None] | None,
) -> DeputyPlan | None:
    """None where it would be of no use, or could not be: a scheduler in this process is held up as well, what is in
    memory cannot be opened twice, and what the program itself has added may live on the program's own loop."""
    store, coordinator = scheme_of(around.settings.store.url), scheme_of(around.settings.coordinator.url)
    if "memory" in (store, coordinator):
        return None
    if registries.stores.is_registered(store) or registries.coordinators.is_registered(coordinator):
        return None

    @asynccontextmanager
    async def open_witnesses() -> AsyncIterator[Witnesses]:
        async with registries.stores.get(store)(around) as records, open_coordinator() as coordination:
            yield Witnesses(records.workers, coordination.pool)

    return DeputyPlan(
        aside=OwnLoop("rota-deputy"),
        open_witnesses=open_witnesses,
        end_process=end_process,
        stuck_after=watchdog.STUCK_AFTER,
    )
