"""Locks by name, each a key that expires: as the leader's (`election.py`), and prolonged by the same script.

Fences are the server's clock in microseconds, but always above the last one given to anybody: one counter is enough for
all names, so that nothing stays of a lock that is over.
"""

from datetime import timedelta

from rota.domain.lock import check_lock
from rota.infrastructure.coordination.redis.keys import RedisKeys, milliseconds
from rota.infrastructure.coordination.redis_client import RedisClient, load_script


class RedisLocks:
    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self._client = client
        self._keys = keys
        self._take = load_script("take_lock")
        self._renew = load_script("renew")
        self._release = load_script("release_lock")

    async def take(self, name: str, owner: str, *, ttl: timedelta) -> int | None:
        check_lock(name, owner)
        keys = (self._keys.lock(name), self._keys.last_fence)
        fence = await self._client.run(self._take, keys=keys, args=(owner, milliseconds(ttl)))
        return None if fence is None else int(fence)

    async def renew(self, name: str, owner: str, *, fence: int, ttl: timedelta) -> bool:
        check_lock(name, owner)
        args = (owner, fence, milliseconds(ttl))
        return bool(await self._client.run(self._renew, keys=(self._keys.lock(name),), args=args))

    async def release(self, name: str, owner: str, *, fence: int) -> bool:
        check_lock(name, owner)
        return bool(await self._client.run(self._release, keys=(self._keys.lock(name),), args=(owner, fence)))
