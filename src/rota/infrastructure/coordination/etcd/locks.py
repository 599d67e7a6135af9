"""Locks by name: keys that are held as the leader's is (`holdings.py`). The fence is the number of the holding."""

from datetime import timedelta

from rota.domain.lock import check_lock
from rota.infrastructure.coordination.etcd.holdings import EtcdHoldings, holder_of
from rota.infrastructure.coordination.etcd.keys import EtcdKeys
from rota.infrastructure.etcd.client import EtcdClient


class EtcdLocks:
    def __init__(self, client: EtcdClient, keys: EtcdKeys) -> None:
        self._holdings = EtcdHoldings(client)
        self._keys = keys

    async def take(self, name: str, owner: str, *, ttl: timedelta) -> int | None:
        check_lock(name, owner)
        key = self._keys.lock(name)
        found = await self._holdings.find(key)
        if found is not None:
            if holder_of(found) != owner:
                return None
            await self._holdings.end([key], owner, number=found.create_revision)  # a try whose answer was lost
        return await self._holdings.begin([key], owner, ttl=ttl)

    async def renew(self, name: str, owner: str, *, fence: int, ttl: timedelta) -> bool:
        check_lock(name, owner)
        return await self._holdings.prolong([self._keys.lock(name)], owner, number=fence, ttl=ttl)

    async def release(self, name: str, owner: str, *, fence: int) -> bool:
        check_lock(name, owner)
        return await self._holdings.end([self._keys.lock(name)], owner, number=fence)
