"""A store that fails to order, around one that works. Operations are named `part.method`: `tasks.advance`."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from rota.application.ports.audit import AuditStore
from rota.application.ports.store import (
    Added,
    CalendarKey,
    CalendarStore,
    ConfigStore,
    FireKey,
    LogStore,
    NodeRecord,
    NodeRegistry,
    ScheduleStore,
    SecretStore,
    SlotLease,
    SlotStore,
    Store,
    TaskStore,
    TermStore,
    TokenStore,
    WorkerRecord,
    WorkerRegistry,
    Written,
)
from rota.domain.access import AccessToken
from rota.domain.audit import AuditEntry, AuditFilter, AuditPage
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.errors import StoreUnavailableError
from rota.domain.firing import Firing
from rota.domain.ids import NodeId, TaskId, TenantId, WorkerId
from rota.domain.log import LogEntry, Progress
from rota.domain.node import NodeInfo
from rota.domain.paging import Page, TaskFilter
from rota.domain.schedule import Occurrence
from rota.domain.submission import NewTask
from rota.domain.task import LiveTask, Task, TaskStatus, Transition
from rota.domain.task_config import ConfigKey, TaskConfig, UnreadableConfig
from rota.domain.worker import Worker
from rota.testing.faults import Faults
from rota.testing.faulty_reports import FaultyReportStore

T = TypeVar("T")


def faulty_store(inner: Store, faults: Faults) -> Store:
    """The same store, failing as planned."""
    return Store(
        tasks=FaultyTaskStore(inner.tasks, faults),
        logs=FaultyLogStore(inner.logs, faults),
        configs=FaultyConfigStore(inner.configs, faults),
        schedules=FaultyScheduleStore(inner.schedules, faults),
        calendars=FaultyCalendarStore(inner.calendars, faults),
        workers=FaultyWorkerRegistry(inner.workers, faults),
        tokens=FaultyTokenStore(inner.tokens, faults),
        audit=FaultyAuditStore(inner.audit, faults),
        terms=FaultyTermStore(inner.terms, faults),
        slots=FaultySlotStore(inner.slots, faults),
        nodes=FaultyNodeRegistry(inner.nodes, faults),
        secrets=FaultySecretStore(inner.secrets, faults),
        reports=FaultyReportStore(inner.reports, faults),
    )


class FaultyTaskStore:
    def __init__(self, inner: TaskStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def now(self) -> datetime:
        return await _around(self._faults, "tasks.now", call=self._inner.now)

    async def add(self, new: Sequence[NewTask]) -> list[Added]:
        return await _around(self._faults, "tasks.add", call=lambda: self._inner.add(new))

    async def advance(self, steps: Sequence[Transition], *, audit: Sequence[AuditEntry] = ()) -> Written:
        return await _around(self._faults, "tasks.advance", call=lambda: self._inner.advance(steps, audit=audit))

    async def find(self, task_id: TaskId, tenant_id: TenantId) -> Task | None:
        return await _around(self._faults, "tasks.find", call=lambda: self._inner.find(task_id, tenant_id))

    async def load(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        return await _around(self._faults, "tasks.load", call=lambda: self._inner.load(task_ids))

    async def find_by_keys(self, tenant_id: TenantId, keys: Collection[str]) -> dict[str, TaskId]:
        return await _around(self._faults, "tasks.find_by_keys", call=lambda: self._inner.find_by_keys(tenant_id, keys))

    async def find_live(self, task_ids: Sequence[TaskId]) -> list[LiveTask]:
        return await _around(self._faults, "tasks.find_live", call=lambda: self._inner.find_live(task_ids))

    async def list_live(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        return await _around(
            self._faults, "tasks.list_live", call=lambda: self._inner.list_live(after=after, limit=limit)
        )

    async def list_due(self, limit: int) -> list[LiveTask]:
        return await _around(self._faults, "tasks.list_due", call=lambda: self._inner.list_due(limit))

    async def list_overdue(self, limit: int) -> list[LiveTask]:
        return await _around(self._faults, "tasks.list_overdue", call=lambda: self._inner.list_overdue(limit))

    async def list_held(self, worker_id: WorkerId) -> list[LiveTask]:
        return await _around(self._faults, "tasks.list_held", call=lambda: self._inner.list_held(worker_id))

    async def list_running(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        return await _around(
            self._faults, "tasks.list_running", call=lambda: self._inner.list_running(after=after, limit=limit)
        )

    async def list_page(self, wanted: TaskFilter) -> Page[Task]:
        return await _around(self._faults, "tasks.list_page", call=lambda: self._inner.list_page(wanted))

    async def count_by_status(self, tenant_id: TenantId | None) -> dict[TaskStatus, int]:
        return await _around(self._faults, "tasks.count_by_status", call=lambda: self._inner.count_by_status(tenant_id))

    async def count_ended(self, tenant_id: TenantId) -> dict[TaskStatus, int]:
        return await _around(self._faults, "tasks.count_ended", call=lambda: self._inner.count_ended(tenant_id))

    async def purge(self, *, completed_before: datetime, limit: int) -> int:
        return await _around(
            self._faults,
            "tasks.purge",
            call=lambda: self._inner.purge(completed_before=completed_before, limit=limit),
        )


class FaultyLogStore:
    def __init__(self, inner: LogStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def append(self, entries: Sequence[LogEntry]) -> None:
        await _around(self._faults, "logs.append", call=lambda: self._inner.append(entries))

    async def read(self, task_id: TaskId, *, after: int = 0, limit: int = 1000) -> list[LogEntry]:
        return await _around(
            self._faults, "logs.read", call=lambda: self._inner.read(task_id, after=after, limit=limit)
        )

    async def find_progress(self, task_id: TaskId, attempt: int) -> Progress | None:
        return await _around(
            self._faults, "logs.find_progress", call=lambda: self._inner.find_progress(task_id, attempt)
        )


class FaultyConfigStore:
    def __init__(self, inner: ConfigStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def put(
        self, config: TaskConfig, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> TaskConfig:
        return await _around(
            self._faults,
            "configs.put",
            call=lambda: self._inner.put(config, expected_revision=expected_revision, audit=audit),
        )

    async def find(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        return await _around(self._faults, "configs.find", call=lambda: self._inner.find(tenant_id, task_type))

    async def find_many(self, keys: Collection[ConfigKey]) -> dict[ConfigKey, TaskConfig]:
        return await _around(self._faults, "configs.find_many", call=lambda: self._inner.find_many(keys))

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[TaskConfig]:
        return await _around(
            self._faults,
            "configs.list_page",
            call=lambda: self._inner.list_page(tenant_id, after=after, limit=limit),
        )

    async def find_revision(self, tenant_id: TenantId, task_type: str, *, revision: int) -> TaskConfig | None:
        return await _around(
            self._faults,
            "configs.find_revision",
            call=lambda: self._inner.find_revision(tenant_id, task_type, revision=revision),
        )

    async def list_revisions(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[TaskConfig]:
        return await _around(
            self._faults,
            "configs.list_revisions",
            call=lambda: self._inner.list_revisions(tenant_id, task_type, limit=limit),
        )

    async def delete(self, tenant_id: TenantId, task_type: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        return await _around(
            self._faults, "configs.delete", call=lambda: self._inner.delete(tenant_id, task_type, audit=audit)
        )


class FaultyScheduleStore:
    def __init__(self, inner: ScheduleStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def list_due(
        self, limit: int, *, by: datetime | None = None, after: FireKey | None = None
    ) -> list[TaskConfig | UnreadableConfig]:
        return await _around(
            self._faults, "schedules.list_due", call=lambda: self._inner.list_due(limit, by=by, after=after)
        )

    async def list_unreadable(self, limit: int) -> list[UnreadableConfig]:
        return await _around(self._faults, "schedules.list_unreadable", call=lambda: self._inner.list_unreadable(limit))

    async def find_next(self) -> datetime | None:
        return await _around(self._faults, "schedules.find_next", call=self._inner.find_next)

    async def fire(self, firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        return await _around(self._faults, "schedules.fire", call=lambda: self._inner.fire(firings))

    async def aim(self, config: TaskConfig | UnreadableConfig, next_fire_at: datetime | None) -> bool:
        return await _around(self._faults, "schedules.aim", call=lambda: self._inner.aim(config, next_fire_at))

    async def find_occurrences(
        self, tenant_id: TenantId, task_type: str, *, times: Collection[datetime]
    ) -> dict[datetime, Occurrence]:
        return await _around(
            self._faults,
            "schedules.find_occurrences",
            call=lambda: self._inner.find_occurrences(tenant_id, task_type, times=times),
        )

    async def list_runs(
        self, since: Mapping[ConfigKey, datetime], *, limit: int = 100
    ) -> dict[ConfigKey, list[Occurrence]]:
        return await _around(
            self._faults, "schedules.list_runs", call=lambda: self._inner.list_runs(since, limit=limit)
        )

    async def list_occurrences(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[Occurrence]:
        return await _around(
            self._faults,
            "schedules.list_occurrences",
            call=lambda: self._inner.list_occurrences(tenant_id, task_type, limit=limit),
        )

    async def purge(self, *, fired_before: datetime, limit: int) -> int:
        return await _around(
            self._faults, "schedules.purge", call=lambda: self._inner.purge(fired_before=fired_before, limit=limit)
        )


class FaultyCalendarStore:
    def __init__(self, inner: CalendarStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def put(
        self, calendar: StoredCalendar, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> StoredCalendar:
        return await _around(
            self._faults,
            "calendars.put",
            call=lambda: self._inner.put(calendar, expected_revision=expected_revision, audit=audit),
        )

    async def find(self, tenant_id: TenantId, name: str) -> StoredCalendar | None:
        return await _around(self._faults, "calendars.find", call=lambda: self._inner.find(tenant_id, name))

    async def load(self, keys: Collection[CalendarKey]) -> dict[CalendarKey, Calendar]:
        return await _around(self._faults, "calendars.load", call=lambda: self._inner.load(keys))

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[StoredCalendar]:
        return await _around(
            self._faults,
            "calendars.list_page",
            call=lambda: self._inner.list_page(tenant_id, after=after, limit=limit),
        )

    async def list_users(
        self, tenant_id: TenantId, name: str, *, after: str = "", limit: int = 100
    ) -> list[TaskConfig]:
        return await _around(
            self._faults,
            "calendars.list_users",
            call=lambda: self._inner.list_users(tenant_id, name, after=after, limit=limit),
        )

    async def delete(self, tenant_id: TenantId, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        return await _around(
            self._faults, "calendars.delete", call=lambda: self._inner.delete(tenant_id, name, audit=audit)
        )


class FaultyWorkerRegistry:
    def __init__(self, inner: WorkerRegistry, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def register(self, worker: Worker) -> None:
        await _around(self._faults, "workers.register", call=lambda: self._inner.register(worker))

    async def seen(self, loads: Mapping[WorkerId, int]) -> list[WorkerRecord]:
        return await _around(self._faults, "workers.seen", call=lambda: self._inner.seen(loads))

    async def retire(self, worker_ids: Sequence[WorkerId]) -> None:
        await _around(self._faults, "workers.retire", call=lambda: self._inner.retire(worker_ids))

    async def order(
        self,
        worker_id: WorkerId,
        *,
        capacity: int | None = None,
        draining: bool | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        return await _around(
            self._faults,
            "workers.order",
            call=lambda: self._inner.order(worker_id, capacity=capacity, draining=draining, audit=audit),
        )

    async def list_all(
        self, *, alive_only: bool = True, after: WorkerId | None = None, limit: int = 1000
    ) -> list[WorkerRecord]:
        return await _around(
            self._faults,
            "workers.list_all",
            call=lambda: self._inner.list_all(alive_only=alive_only, after=after, limit=limit),
        )

    async def purge(self, *, retired_before: datetime, limit: int) -> int:
        return await _around(
            self._faults, "workers.purge", call=lambda: self._inner.purge(retired_before=retired_before, limit=limit)
        )


class FaultyTokenStore:
    def __init__(self, inner: TokenStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def add(self, token: AccessToken, *, audit: Sequence[AuditEntry] = ()) -> None:
        await _around(self._faults, "tokens.add", call=lambda: self._inner.add(token, audit=audit))

    async def find(self, token_id: str) -> AccessToken | None:
        return await _around(self._faults, "tokens.find", call=lambda: self._inner.find(token_id))

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[AccessToken]:
        return await _around(
            self._faults, "tokens.list_page", call=lambda: self._inner.list_page(tenant_id, after=after, limit=limit)
        )

    async def revoke(
        self, tenant_id: TenantId, token_id: str, *, at: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        return await _around(
            self._faults, "tokens.revoke", call=lambda: self._inner.revoke(tenant_id, token_id, at=at, audit=audit)
        )

    async def touch(self, uses: Mapping[str, datetime]) -> None:
        await _around(self._faults, "tokens.touch", call=lambda: self._inner.touch(uses))

    async def purge(self, *, ended_before: datetime, limit: int) -> int:
        return await _around(
            self._faults, "tokens.purge", call=lambda: self._inner.purge(ended_before=ended_before, limit=limit)
        )


class FaultyAuditStore:
    def __init__(self, inner: AuditStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def add(self, audit: Sequence[AuditEntry]) -> None:
        await _around(self._faults, "audit.add", call=lambda: self._inner.add(audit))

    async def list_page(self, tenant_id: TenantId, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        return await _around(
            self._faults, "audit.list_page", call=lambda: self._inner.list_page(tenant_id, before=before, limit=limit)
        )

    async def search(self, wanted: AuditFilter) -> AuditPage:
        return await _around(self._faults, "audit.search", call=lambda: self._inner.search(wanted))

    async def purge(self, *, before: datetime, limit: int) -> int:
        return await _around(self._faults, "audit.purge", call=lambda: self._inner.purge(before=before, limit=limit))


class FaultyTermStore:
    def __init__(self, inner: TermStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def begin(self, node_id: NodeId) -> int:
        return await _around(self._faults, "terms.begin", call=lambda: self._inner.begin(node_id))

    async def confirm(self, number: int) -> bool:
        return await _around(self._faults, "terms.confirm", call=lambda: self._inner.confirm(number))

    async def find_last(self) -> int:
        return await _around(self._faults, "terms.find_last", call=self._inner.find_last)


class FaultySlotStore:
    def __init__(self, inner: SlotStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def lease(self, node_id: NodeId, ttl: timedelta) -> SlotLease:
        return await _around(self._faults, "slots.lease", call=lambda: self._inner.lease(node_id, ttl))

    async def renew(self, node_id: NodeId, lease: SlotLease, *, ttl: timedelta) -> bool:
        return await _around(self._faults, "slots.renew", call=lambda: self._inner.renew(node_id, lease, ttl=ttl))


class FaultyNodeRegistry:
    def __init__(self, inner: NodeRegistry, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def seen(self, node: NodeInfo) -> None:
        await _around(self._faults, "nodes.seen", call=lambda: self._inner.seen(node))

    async def leave(self, node_id: NodeId) -> None:
        await _around(self._faults, "nodes.leave", call=lambda: self._inner.leave(node_id))

    async def list_alive(self, *, since: datetime) -> list[NodeRecord]:
        return await _around(self._faults, "nodes.list_alive", call=lambda: self._inner.list_alive(since=since))

    async def purge(self, *, seen_before: datetime, limit: int) -> int:
        return await _around(
            self._faults, "nodes.purge", call=lambda: self._inner.purge(seen_before=seen_before, limit=limit)
        )


class FaultySecretStore:
    def __init__(self, inner: SecretStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def keep(self, name: str, secret: str) -> str:
        return await _around(self._faults, "secrets.keep", call=lambda: self._inner.keep(name, secret))


def _around(faults: Faults, operation: str, *, call: Callable[[], Awaitable[T]]) -> Awaitable[T]:
    return faults.around(operation, call, unavailable=StoreUnavailableError)
