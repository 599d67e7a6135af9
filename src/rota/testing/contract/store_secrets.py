"""The contract of `SecretStore`: what the nodes of a cluster share."""

import asyncio

import pytest

from rota.testing.contract.store_backend import StoreBackend


@pytest.mark.asyncio
class TestSecrets:
    async def test_the_first_secret_under_a_name_stays(self, backend: StoreBackend) -> None:
        store, other = await backend.connect(), await backend.connect()
        assert await store.secrets.keep("callback", "first") == "first"
        assert await other.secrets.keep("callback", "second") == "first"
        assert await store.secrets.keep("callback", "third") == "first"
        assert await other.secrets.keep("another", "x" * 255) == "x" * 255

    async def test_nodes_that_start_at_once_agree_on_one(self, backend: StoreBackend) -> None:
        stores = [await backend.connect() for _ in range(4)]
        kept = await asyncio.gather(*(store.secrets.keep("key", f"of {n}") for n, store in enumerate(stores)))
        assert len(set(kept)) == 1
        assert kept[0] in {f"of {n}" for n in range(4)}
