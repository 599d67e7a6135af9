"""The store in this process's memory: for tests, simulations and trying things out. It ends with the process."""

from rota.application.ports.store import Store
from rota.application.ports.system import Clock
from rota.infrastructure.store.memory.audit import MemoryAuditStore
from rota.infrastructure.store.memory.calendars import MemoryCalendarStore
from rota.infrastructure.store.memory.configs import MemoryConfigStore, MemoryScheduleStore
from rota.infrastructure.store.memory.leadership import MemorySlotStore, MemoryTermStore
from rota.infrastructure.store.memory.nodes import MemoryNodeRegistry
from rota.infrastructure.store.memory.reports import MemoryReportStore
from rota.infrastructure.store.memory.secrets import MemorySecretStore
from rota.infrastructure.store.memory.state import MemoryState
from rota.infrastructure.store.memory.tasks import MemoryLogStore, MemoryTaskStore
from rota.infrastructure.store.memory.tokens import MemoryTokenStore
from rota.infrastructure.store.memory.workers import MemoryWorkerRegistry


def memory_store(clock: Clock) -> Store:
    """A store of its own, empty, whose clock is this one."""
    return join_memory(MemoryState(clock))


def join_memory(state: MemoryState) -> Store:
    """One node's view of a shared state."""
    return Store(
        tasks=MemoryTaskStore(state),
        logs=MemoryLogStore(state),
        configs=MemoryConfigStore(state),
        schedules=MemoryScheduleStore(state),
        calendars=MemoryCalendarStore(state),
        workers=MemoryWorkerRegistry(state),
        tokens=MemoryTokenStore(state),
        audit=MemoryAuditStore(state),
        terms=MemoryTermStore(state),
        slots=MemorySlotStore(state),
        nodes=MemoryNodeRegistry(state),
        secrets=MemorySecretStore(state),
        reports=MemoryReportStore(state),
    )
