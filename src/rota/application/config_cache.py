"""Task configs as this node knows them: read from the store, kept for a moment.

A change made elsewhere is seen after `KEEP` at the latest. A config that is not there is asked for every time, so one
that has just been created can be used at once on any node.
"""

from collections.abc import Iterable
from datetime import timedelta

from rota.application.ports.store import ConfigStore
from rota.application.ports.system import Clock
from rota.domain.ids import TenantId
from rota.domain.task_config import TaskConfig

KEEP = timedelta(seconds=2)
MOST = 10_000  # configs; beyond it everything is read anew

Key = tuple[TenantId, str]


class ConfigCache:
    def __init__(self, configs: ConfigStore, clock: Clock) -> None:
        self._configs = configs
        self._clock = clock
        self._known: dict[Key, tuple[TaskConfig, float]] = {}

    async def find(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        """The config, at most `KEEP` old."""
        found = self._known.get((tenant_id, task_type))
        if found is not None and self._clock.monotonic() < found[1]:
            return found[0]
        return await self._read((tenant_id, task_type))

    async def find_all(self, keys: Iterable[Key]) -> dict[Key, TaskConfig]:
        """Those of the configs that exist."""
        found = {key: await self.find(*key) for key in set(keys)}
        return {key: config for key, config in found.items() if config is not None}

    def forget(self, tenant_id: TenantId, task_type: str) -> None:
        """This node has just changed it."""
        self._known.pop((tenant_id, task_type), None)

    async def _read(self, key: Key) -> TaskConfig | None:
        asked_at = self._clock.monotonic()
        config = await self._configs.find(*key)
        if len(self._known) >= MOST:
            self._known.clear()
        if config is None:
            self._known.pop(key, None)
        else:
            self._known[key] = (config, asked_at + KEEP.total_seconds())
        return config
