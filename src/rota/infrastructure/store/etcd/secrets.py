"""What the nodes of a cluster share in secret, in etcd."""

from rota.infrastructure.etcd.ops import Op, put
from rota.infrastructure.store.etcd.space import EtcdSpace, Found


class EtcdSecretStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def keep(self, name: str, secret: str) -> str:
        key = self._space.key("secrets", name)
        return await self._space.decide([key], lambda found: _keep(found, key, secret=secret))


def _keep(found: Found, key: str, *, secret: str) -> tuple[list[Op], str]:
    (kept,) = found
    return ([put(key, secret.encode())], secret) if kept is None else ([], kept.value.decode())
