"""What the nodes of a cluster share in secret, in memory."""

from rota.infrastructure.store.memory.state import MemoryState


class MemorySecretStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def keep(self, name: str, secret: str) -> str:
        return self._state.secrets.setdefault(name, secret)
