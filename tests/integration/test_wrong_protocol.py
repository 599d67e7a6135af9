"""A client at a port that speaks something else: it is told so at once, and nothing is tried again."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

import rota
from rota.client.exchange import UntrustedError, WrongProtocolError
from rota.client.http import HANGS_UP, NOT_HTTP_1, NOT_TLS
from rota.client.place import Place
from tests.support.certificates import make_certificate
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


async def test_a_command_at_a_server_with_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))

    async def ask(url: str) -> WrongProtocolError:
        async with rota.AsyncClient.at(Place(url, "rota_x", connect_within=timedelta(0))) as client:
            with pytest.raises(WrongProtocolError, match=f"{url} {HANGS_UP}") as raised:
                await client.stats()
        return raised.value

    async with a_grpc_api(api={"tls_cert": str(cert), "tls_key": str(key)}) as api:
        plain = api.url.replace("https:", "http:")
        assert (await ask(plain)).meant == api.url
        assert api.front is not None
        assert api.front.grpc is not None
        host, _, port = api.front.grpc.address.rpartition(":")
        assert (await ask(f"https://{host}:{port}")).meant == f"https://{host}:{int(port) - 1}"
        monkeypatch.delenv("SSL_CERT_FILE")
        async with rota.AsyncClient(api.url, "rota_x") as client:
            with pytest.raises(UntrustedError, match=f"the certificate of {api.url} is not trusted here"):
                await client.stats()
