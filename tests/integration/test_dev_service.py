"""The service that `rota dev` brings along."""

import asyncio
import json
import os
from pathlib import Path

import httpx2
import pytest

from rota.config.load import Sources, load
from rota.infrastructure.executors.http.settings import SecretSettings
from rota.infrastructure.system import SystemClock
from rota.interfaces.cli.dev_service import SECRET_NAME, SampleService, open_service
from rota.sdk.signing import key_of, sign


def signed(service: SampleService, body: bytes) -> dict[str, str]:
    now = int(SystemClock().now().timestamp())
    signature = sign([key_of(service.secret)], "7", timestamp=now, body=body)
    return {"webhook-id": "7", "webhook-timestamp": str(now), "webhook-signature": signature}


@pytest.mark.parametrize(
    ("payload", "status", "greeting"),
    [(None, 200, "Hello, world!"), ({"name": "Ada"}, 200, "Hello, Ada!"), ("Ada", 422, None)],
)
async def test_it_greets_serves_until_it_is_cancelled_and_leaves_nothing(
    payload: object, status: int, greeting: str | None
) -> None:
    service = open_service(0)
    running = asyncio.create_task(service.run())
    body = json.dumps({"task_id": "7", "attempt": 1, "type": "sample_http", "payload": payload}).encode()
    url = f"http://{service.address}/greet"
    async with httpx2.AsyncClient() as client:
        answer = await client.post(url, content=body, headers=signed(service, body))
        unsigned = await client.post(url, content=body)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (answer.status_code, answer.json().get("greeting"), unsigned.status_code) == (status, greeting, 401)
    assert [listener.fileno() for listener in service.sockets] == [-1]


def test_what_was_allowed_stays_allowed_and_one_port_is_added() -> None:
    service = open_service(0)
    try:
        kept = {"default": {"keys": ["whsec_" + "A" * 43 + "="], "hosts": ["crm.internal"]}}
        given = {"http.allow": "10.0.0.0/8,crm.internal:80", "http.secrets": json.dumps(kept)}
        settings = load(Sources(flags=given, folder=Path(os.devnull))).settings
        flags = service.list_flags(settings.http)
        read = load(Sources(flags=flags, folder=Path(os.devnull))).settings.http
        assert list(read.allow) == ["10.0.0.0/8", "crm.internal:80", service.address]
        assert read.secrets == {
            "default": settings.http.secrets["default"],
            SECRET_NAME: SecretSettings(keys=(service.secret,), hosts=(service.address,)),
        }
        assert service.secret not in repr(service)
    finally:
        for listener in service.sockets:
            listener.close()


def test_every_start_has_a_secret_of_its_own() -> None:
    services = [open_service(0), open_service(0)]
    for service in services:
        for listener in service.sockets:
            listener.close()
    assert len({service.secret for service in services}) == 2
