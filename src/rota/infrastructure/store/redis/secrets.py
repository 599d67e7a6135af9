"""What the nodes of a cluster share in secret, in Redis."""

from rota.infrastructure.store.redis.space import RedisSpace


class RedisSecretStore:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space
        self._key = space.key("secrets")

    async def keep(self, name: str, secret: str) -> str:
        asked = [("HSETNX", self._key, name, secret), ("HGET", self._key, name)]
        _, kept = await self._space.client.batch(asked, atomic=True)
        return str(kept.decode())
