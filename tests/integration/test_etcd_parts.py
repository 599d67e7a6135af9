"""What may be too much for one answer of an etcd, or for one request."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from rota.application.ports.store import Store
from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import MAX_ID
from rota.domain.log import Progress, rerun_entry
from rota.infrastructure.coordination.etcd.coordinator import etcd_coordinator
from rota.infrastructure.etcd.client import Done, EtcdClient
from rota.infrastructure.etcd.ops import Op, scan, under
from rota.infrastructure.store.etcd.records import MOST_LONG
from rota.infrastructure.store.etcd.space import KV
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


@pytest.mark.parametrize("size", [(20, 200_000), (600, 3_000)], ids=["payloads", "specs"])
async def test_what_was_brought_for_a_batch_that_never_came_goes_by_itself_and_is_in_no_report(
    store: Store, client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    number, length = size
    *batch, later = make_tasks(number + 1, payload='{"text": "' + "x" * length + '"}')
    with monkeypatch.context() as patched:
        patched.setattr(client, "write", _losing(client, "/due/"))
        with pytest.raises(StoreUnavailableError):
            await add(store, batch)
    brought = await _list_keys(client, prefix)
    assert len(brought) == number
    assert all(kv.lease for kv in brought)
    assert await store.reports.load_facts([task.id for task in batch]) == []
    await add(store, [later])
    assert [one.id for one in await store.reports.list_facts(after=0, before=MAX_ID, limit=1)] == [later.id]


@pytest.mark.parametrize(("number", "length"), [(1, 5_000), (20, 200_000), (600, 3_000), (300, 5_500)])
async def test_what_was_brought_for_a_batch_stays_with_it(
    store: Store, client: EtcdClient, prefix: str, number: int, length: int
) -> None:
    tasks = make_tasks(number, payload='{"text": "' + "x" * length + '"}')
    for _ in range(2):
        await add(store, tasks)
    for lease in {kv.lease for kv in await _list_keys(client, prefix) if kv.lease}:
        await client.revoke(lease)
    assert await store.tasks.load([task.id for task in tasks]) == {task.id: task for task in tasks}


async def test_a_batch_that_was_slow_leaves_alone_what_another_has_added_of_it(
    store: Store, client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = make_tasks(600, payload='{"text": "' + "x" * 3_000 + '"}')
    write, has_waited = client.write, False

    async def add_first(*args: Any, **options: Any) -> Done:
        nonlocal has_waited
        if not has_waited:
            has_waited = True
            await add(store, tasks)
        return await write(*args, **options)

    monkeypatch.setattr(client, "write", add_first)
    await add(store, tasks)
    assert has_waited
    for lease in {kv.lease for kv in await _list_keys(client, prefix) if kv.lease}:
        await client.revoke(lease)
    assert await store.tasks.load([task.id for task in tasks]) == {task.id: task for task in tasks}


async def test_lines_that_come_after_a_purge_go_by_themselves(store: Store, client: EtcdClient, prefix: str) -> None:
    gone, there = make_tasks(2)
    await add(store, [gone, there])
    await end(store, await grant(store, [gone]))
    assert await store.tasks.purge(completed_before=NOON + HOUR, limit=100) == 1
    lines = [rerun_entry(task, there) for task in (gone, there)]
    for _ in range(2):
        await store.logs.append(lines)
    leases = {kv.key.decode(): kv.lease for kv in await _list_keys(client, f"{prefix}/logs")}
    assert [bool(leases[f"/{prefix}/logs/{line.task_id:019}/{line.seq:019}"]) for line in lines] == [True, False]
    assert await store.logs.read(gone.id) == lines[:1]


async def test_events_that_say_much_of_their_progress_are_told(client: EtcdClient, prefix: str) -> None:
    signals = etcd_coordinator(client, SystemClock(), prefix=prefix).signals
    told = Progress(0.5, "x" * 16_000)
    events = [replace(one, progress=told) for one in make_events(200)]
    async with signals.subscribe() as heard:
        await signals.publish(events)
        assert [(await anext(heard)).event for _ in events] == events


async def _list_keys(client: EtcdClient, folder: str) -> Sequence[KV]:
    return (await client.read([scan(under(f"/{folder}/"), keys_only=True)])).answers[0].range.kvs


def _losing(client: EtcdClient, part: str) -> Callable[..., Awaitable[Done]]:
    """Writes of which those that put a key with this in its name never arrive."""
    write = client.write

    async def write_or_not(ops: Sequence[Op], **options: Any) -> Done:
        if any(op.count(part.encode()) for op in ops):
            raise StoreUnavailableError("etcd: no leader")
        return await write(ops, **options)

    return write_or_not
