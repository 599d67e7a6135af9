"""What may be too much for one answer of an etcd, or for one request."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from rota.application.ports.store import Store
from rota.domain.ids import MAX_ID
from rota.domain.log import Progress
from rota.infrastructure.coordination.etcd.coordinator import etcd_coordinator
from rota.infrastructure.etcd.client import Done, EtcdClient
from rota.infrastructure.etcd.ops import Op
from rota.infrastructure.store.etcd.records import MOST_LONG
from rota.infrastructure.system import SystemClock
from rota.testing.contract.coordinator_signals import make_events
from rota.testing.contract.store_backend import HOUR, NOON, add, end, grant, make_tasks
from tests.support import etcd_fixtures

prefix, client, store = etcd_fixtures.prefix, etcd_fixtures.client, etcd_fixtures.store


async def test_what_may_be_long_is_read_in_parts(
    store: Store, client: EtcdClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = make_tasks(MOST_LONG + 1, payload='{"text": "' + "x" * 5_000 + '"}')
    await add(store, tasks)
    most, read = [0], client.read

    async def read_and_weigh(ops: Sequence[Op]) -> Done:
        done = await read(ops)
        most.append(sum(len(kv.value) > 5_000 for answer in done.answers for kv in answer.range.kvs))
        return done

    monkeypatch.setattr(client, "read", read_and_weigh)
    assert await store.tasks.load([task.id for task in tasks]) == {task.id: task for task in tasks}
    assert max(most) == MOST_LONG


async def test_ends_are_read_in_parts(store: Store, client: EtcdClient, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = make_tasks(MOST_LONG + 1)
    await end(store, await grant(store, await add(store, tasks)))
    most, read = [0], client.read

    async def read_and_count(ops: Sequence[Op]) -> Done:
        done = await read(ops)
        most.append(sum(b"/results/" in kv.key for answer in done.answers for kv in answer.range.kvs))
        return done

    monkeypatch.setattr(client, "read", read_and_count)
    facts = await store.reports.list_facts(after=0, before=MAX_ID, limit=1_000)
    assert [one.id for one in facts] == [task.id for task in tasks]
    assert await store.tasks.purge(completed_before=NOON + HOUR, limit=1_000) == len(tasks)
    assert max(most) == MOST_LONG


async def test_events_that_say_much_of_their_progress_are_told(client: EtcdClient, prefix: str) -> None:
    signals = etcd_coordinator(client, SystemClock(), prefix=prefix).signals
    told = Progress(0.5, "x" * 16_000)
    events = [replace(one, progress=told) for one in make_events(200)]
    async with signals.subscribe() as heard:
        await signals.publish(events)
        assert [(await anext(heard)).event for _ in events] == events
