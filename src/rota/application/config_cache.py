"""Task configs as this node knows them: read from the store, kept for a moment.

A change made elsewhere is seen after `KEEP` at the latest. A config that is not there is asked for every time, so one
that has just been created can be used at once on any node.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

from rota.application.ports.store import ConfigStore
from rota.application.ports.system import Clock
from rota.domain.ids import TenantId
from rota.domain.task_config import ConfigKey, TaskConfig

KEEP = timedelta(seconds=2)
MOST = 10_000  # configs; beyond it everything is read anew


class ConfigCache:
    def __init__(self, configs: ConfigStore, clock: Clock) -> None:
        self._configs = configs
        self._clock = clock
        self._known: dict[ConfigKey, tuple[TaskConfig, float]] = {}

    async def find(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        """The config, at most `KEEP` old."""
        key = (tenant_id, task_type)
        known = self._list_fresh([key])
        if known:
            return known[key]
        asked_at = self._clock.monotonic()
        config = await self._configs.find(*key)
        self._keep([key], {} if config is None else {key: config}, asked_at=asked_at)
        return config

    async def find_all(self, keys: Iterable[ConfigKey]) -> dict[ConfigKey, TaskConfig]:
        """Those of the configs that exist. However many are not known, the store is asked once."""
        wanted = set(keys)
        known = self._list_fresh(wanted)
        unknown = wanted - known.keys()
        if not unknown:
            return known
        asked_at = self._clock.monotonic()
        found = await self._configs.find_many(unknown)
        self._keep(unknown, found, asked_at=asked_at)
        return known | found

    def forget(self, tenant_id: TenantId, task_type: str) -> None:
        """This node has just changed it."""
        self._known.pop((tenant_id, task_type), None)

    def _list_fresh(self, keys: Iterable[ConfigKey]) -> dict[ConfigKey, TaskConfig]:
        now = self._clock.monotonic()
        kept = {key: self._known[key] for key in keys if key in self._known}
        return {key: config for key, (config, until) in kept.items() if now < until}

    def _keep(self, asked: Collection[ConfigKey], found: Mapping[ConfigKey, TaskConfig], *, asked_at: float) -> None:
        if len(self._known) + len(found) > MOST:
            self._known.clear()
        for key in asked:
            self._known.pop(key, None)
        until = asked_at + KEEP.total_seconds()
        self._known |= {key: (config, until) for key, config in found.items()}
