"""What becomes of events on etcd once they were told."""

from typing import Any, NoReturn

import pytest

from rota.domain.errors import StoreUnavailableError
from rota.infrastructure.coordination.etcd import signals as etcd_signals
from rota.infrastructure.coordination.etcd.coordinator import etcd_coordinator
from rota.infrastructure.etcd.client import EtcdClient
from rota.infrastructure.etcd.ops import scan, under
from rota.infrastructure.system import SystemClock
from rota.testing.contract.coordinator_signals import make_events
from tests.support import etcd_fixtures

prefix, client = etcd_fixtures.prefix, etcd_fixtures.client


async def test_events_of_processes_that_say_little_are_forgotten_too(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_signals, "REMEMBERED", 10)
    for _ in range(20):
        process = etcd_coordinator(client, SystemClock(), prefix=prefix)
        for _ in range(2):
            await process.signals.publish(make_events(5))
    kept = (await client.read([scan(under(f"/{prefix}/"), keys_only=True)])).answers[0].range.kvs
    assert len([kv for kv in kept if b"/events/" in kv.key]) <= 4, "what is remembered, and what came since"


async def test_what_was_told_is_told_though_nothing_could_be_forgotten(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals = etcd_coordinator(client, SystemClock(), prefix=prefix).signals
    asked = 0

    async def fail(*_: Any) -> NoReturn:
        nonlocal asked
        asked += 1
        raise StoreUnavailableError("etcd: no leader")

    events = make_events(3)
    async with signals.subscribe() as heard:
        with monkeypatch.context() as patched:
            patched.setattr(client, "read", fail)
            await signals.publish(events)
        assert asked == 1
        assert [(await anext(heard)).event for _ in events] == events
