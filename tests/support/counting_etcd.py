"""An etcd client that counts what it is asked for."""

from collections.abc import Sequence
from typing import Any

from rota.domain.errors import StoreUnavailableError
from rota.infrastructure.etcd.client import Done, EtcdClient
from rota.infrastructure.etcd.ops import Op
from tests.support.patience import PATIENT_ETCD


class CountingClient(EtcdClient):
    """Knows how many transactions it was asked for, and how many operations were in them."""

    def __init__(self, url: str) -> None:
        super().__init__(url, PATIENT_ETCD, unavailable=StoreUnavailableError)
        self.transactions = 0
        self.ops = 0

    async def _transact(self, ops: Sequence[Op], **how: Any) -> Done:
        self.transactions += 1
        self.ops += len(ops)
        return await super()._transact(ops, **how)

    def take(self) -> tuple[int, int]:
        counted, self.transactions, self.ops = (self.transactions, self.ops), 0, 0
        return counted
