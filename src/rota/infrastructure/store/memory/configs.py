"""Task configs and their schedules in memory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from rota.application.ports.store import MOST_LOOKED_THROUGH, FireKey
from rota.domain.audit import AuditEntry
from rota.domain.errors import InvalidError, RevisionConflictError
from rota.domain.firing import Firing, already_in, check_one_firing_each
from rota.domain.ids import TenantId
from rota.domain.paging import purge_limit
from rota.domain.schedule import Occurrence
from rota.domain.task_config import KEPT_REVISIONS, ConfigKey, TaskConfig, UnreadableConfig
from rota.infrastructure.store.memory.state import MemoryState


class MemoryConfigStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def put(
        self, config: TaskConfig, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> TaskConfig:
        key = (config.tenant_id, config.type)
        current = self._state.configs.get(key)
        if current is not None and config.is_repeat_of(current, expected_revision=expected_revision):
            return current
        revision = current.revision if current is not None else 0
        if expected_revision is not None and expected_revision != revision:
            raise RevisionConflictError(config.type, expected=expected_revision, current=revision)
        self._check_calendars(config)
        now = self._state.clock.now()
        revisions = self._state.revisions.setdefault(key, [])
        created_at = current.created_at if current is not None else now
        wanted = config.in_place_of(current)
        last = revisions[-1].revision if revisions else 0
        stored = replace(wanted, revision=last + 1, created_at=created_at, updated_at=now)
        revisions.append(stored)
        del revisions[:-KEPT_REVISIONS]
        self._state.configs[key] = stored
        self._state.record(audit)
        return stored

    async def find(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        return self._state.configs.get((tenant_id, task_type))

    async def find_many(self, keys: Collection[ConfigKey]) -> dict[ConfigKey, TaskConfig]:
        configs = self._state.configs
        return {key: configs[key] for key in keys if key in configs}

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[TaskConfig]:
        keys = sorted(key for key in self._state.configs if key[0] == tenant_id and key[1] > after)
        return [self._state.configs[key] for key in keys[:limit]]

    async def find_revision(self, tenant_id: TenantId, task_type: str, *, revision: int) -> TaskConfig | None:
        known = self._state.revisions.get((tenant_id, task_type), [])
        return next((one for one in known if one.revision == revision), None)

    async def list_revisions(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[TaskConfig]:
        return self._state.revisions.get((tenant_id, task_type), [])[::-1][:limit]

    async def delete(self, tenant_id: TenantId, task_type: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        if self._state.configs.pop((tenant_id, task_type), None) is None:
            return False
        self._state.record(audit)
        return True

    def _check_calendars(self, config: TaskConfig) -> None:
        for name in sorted(config.schedule.calendars) if config.schedule else ():
            if (config.tenant_id, name) not in self._state.calendars:
                raise InvalidError("schedule", f"there is no calendar {name!r}")


class MemoryScheduleStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def list_due(
        self, limit: int, *, by: datetime | None = None, after: FireKey | None = None
    ) -> list[TaskConfig | UnreadableConfig]:
        until = self._state.clock.now() if by is None else by
        going = ((one.next_fire_at, one) for one in self._state.configs.values() if one.can_fire)
        keys = sorted((at, one.tenant_id, one.type) for at, one in going if at is not None and at <= until)
        later = [key for key in keys if after is None or key > after]
        return [self._state.configs[tenant, task_type] for _, tenant, task_type in later[:limit]]

    async def list_unreadable(self, limit: int) -> list[UnreadableConfig]:
        return []  # they are kept as they were given

    async def find_next(self) -> datetime | None:
        configs = self._state.configs.values()
        return min((one.next_fire_at for one in configs if one.can_fire and one.next_fire_at), default=None)

    async def fire(self, firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        check_one_firing_each(firings)
        for task in (task for firing in firings for task in firing.tasks):
            self._state.check_id(task)
        return [self._fire(firing) for firing in firings]

    def _fire(self, firing: Firing) -> Sequence[Occurrence]:
        key = (firing.tenant_id, firing.task_type)
        config, known = self._state.configs.get(key), self._state.occurrences.setdefault(key, {})
        if config is None or (config.next_fire_at, config.revision) != (firing.seen_at, firing.revision):
            return already_in(firing, known)
        new = firing.without(known)
        for task in new.tasks:
            self._state.insert(task)
        known.update({one.fire_at: one for one in new.occurrences})
        self._state.configs[key] = replace(
            config,
            next_fire_at=firing.next_fire_at,
            runs=config.runs + len(new.tasks),
            last_run=new.last_run or config.last_run,
        )
        return new.occurrences

    async def aim(self, config: TaskConfig | UnreadableConfig, next_fire_at: datetime | None) -> bool:
        key = (config.tenant_id, config.type)
        found = self._state.configs.get(key)
        if found is None or (found.next_fire_at, found.revision) != (config.next_fire_at, config.revision):
            return False
        self._state.configs[key] = replace(found, next_fire_at=next_fire_at)
        return True

    async def list_occurrences(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[Occurrence]:
        occurrences = self._state.occurrences.get((tenant_id, task_type), {})
        return [occurrences[fire_at] for fire_at in sorted(occurrences, reverse=True)[:limit]]

    async def find_occurrences(
        self, tenant_id: TenantId, task_type: str, *, times: Collection[datetime]
    ) -> dict[datetime, Occurrence]:
        known = self._state.occurrences.get((tenant_id, task_type), {})
        return {at: known[at] for at in times if at in known}

    async def list_runs(
        self, since: Mapping[ConfigKey, datetime], *, limit: int = 100
    ) -> dict[ConfigKey, list[Occurrence]]:
        return {key: self._list_runs(key, since=at, limit=limit) for key, at in since.items()}

    def _list_runs(self, key: ConfigKey, *, since: datetime, limit: int) -> list[Occurrence]:
        known = self._state.occurrences.get(key, {})
        times = sorted((at for at in known if since <= at), reverse=True)[:MOST_LOOKED_THROUGH]
        return [known[at] for at in times if known[at].task_id is not None][:limit]

    async def purge(self, *, fired_before: datetime, limit: int) -> int:
        times = [(key, at) for key, known in self._state.occurrences.items() for at in known if at < fired_before]
        doomed = sorted(times)[: purge_limit(limit)]
        for key, at in doomed:
            del self._state.occurrences[key][at]
        return len(doomed)
