"""A client at a port that speaks something else: it is told so at once, and nothing is tried again."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import rota
from rota.client.exchange import WrongProtocolError
from rota.client.http import NOT_HTTP_1, NOT_TLS
from tests.support.grpc_api import GrpcApi, a_grpc_api


@pytest.fixture
async def api() -> AsyncIterator[GrpcApi]:
    async with a_grpc_api() as made:
        yield made


def list_urls(api: GrpcApi) -> dict[str, str]:
    assert api.front is not None
    assert api.front.grpc is not None
    return {f"http://{api.front.grpc.address}": NOT_HTTP_1, api.url.replace("http:", "https:"): NOT_TLS}


async def test_a_client_that_awaits(api: GrpcApi) -> None:
    for url, told in list_urls(api).items():
        async with rota.AsyncClient(url, "rota_x") as client:
            with pytest.raises(WrongProtocolError, match=f"{url} {told}"):
                await client.tasks.cancel("7")
            with pytest.raises(WrongProtocolError, match=f"{url} {told}"):
                async for _ in client.events():
                    pass


async def test_a_client_that_blocks(api: GrpcApi) -> None:
    def ask(url: str, told: str) -> None:
        with rota.Client(url, "rota_x") as client:
            with pytest.raises(WrongProtocolError, match=f"{url} {told}"):
                client.stats()
            with pytest.raises(WrongProtocolError, match=f"{url} {told}"):
                next(iter(client.events()))

    for url, told in list_urls(api).items():
        await asyncio.to_thread(ask, url, told)
