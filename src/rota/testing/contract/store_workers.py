"""The contract of `WorkerRegistry`: which incarnations there are and were."""

from dataclasses import replace
from typing import Any

import pytest

from rota.application.ports.store import Store, WorkerRecord
from rota.domain.audit import AuditEntry
from rota.domain.ids import DEFAULT_TENANT, WorkerId
from rota.domain.worker import Worker, WorkerOrders
from rota.testing.contract.store_backend import AWKWARD_TEXTS, HOUR, HUGE, NOON, WORKER_1, WORKER_2, StoreBackend

UNKNOWN = WorkerId(99)


@pytest.mark.asyncio
class TestWorkers:
    async def test_a_worker_comes_back_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        worker = Worker(
            id=WORKER_1,
            name="worker.one_8000-a-b_c",
            address="[::1]:9000",
            capacity=1000,
            types=frozenset({"email", "billing.invoice-send_v2"}),
            weight=1000,
            labels={"zone": "上海", "quote": '"'},
            load=7,
            is_draining=True,
        )
        await store.workers.register(worker)
        assert [record.worker for record in await store.workers.list_all()] == [worker]

    async def test_awkward_labels_come_back_as_they_were(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        workers = [
            _worker(WorkerId(number), labels={"text": text}, address=text)
            for number, text in enumerate(AWKWARD_TEXTS, start=1)
        ]
        for worker in workers:
            await store.workers.register(worker)
        assert [record.worker for record in await store.workers.list_all()] == workers

    async def test_a_new_worker_is_stamped_by_the_stores_clock(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        before = await store.tasks.now()
        await store.workers.register(_worker())
        after = await store.tasks.now()
        [record] = await store.workers.list_all()
        assert before <= record.registered_at <= record.seen_at <= after
        assert record.retired_at is None

    async def test_workers_are_listed_by_id(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for worker_id in (WORKER_2, UNKNOWN, WORKER_1):
            await store.workers.register(_worker(worker_id))
        assert [record.worker.id for record in await store.workers.list_all()] == [UNKNOWN, WORKER_1, WORKER_2]

    async def test_a_page_is_full_unless_it_is_the_last(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        ids = [WorkerId(number) for number in range(1, 6)]
        for worker_id in ids:
            await store.workers.register(_worker(worker_id))
        await store.workers.retire([ids[1]])  # between those that live
        first = [record.worker.id for record in await store.workers.list_all(limit=3)]
        last = [record.worker.id for record in await store.workers.list_all(limit=3, after=first[-1])]
        assert (first, last) == ([ids[0], ids[2], ids[3]], [ids[4]])

    async def test_registering_again_keeps_the_first_time_and_takes_the_changes(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.workers.register(_worker())
        [first] = await store.workers.list_all()
        await backend.wait(backend.tick)
        changed = _worker(capacity=3, types=frozenset({"sms"}), labels={"a": "b"}, is_draining=True)
        await store.workers.register(changed)
        [second] = await store.workers.list_all()
        assert (second.worker, second.registered_at) == (changed, first.registered_at)
        assert second.seen_at > first.seen_at

    async def test_seen_notes_load_and_time_of_the_workers_named(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for worker_id in (WORKER_1, WORKER_2):
            await store.workers.register(_worker(worker_id))
        before = await _records(store)
        await backend.wait(backend.tick)
        await store.workers.seen({WORKER_1: 5})
        after = await _records(store)
        assert after[WORKER_1].worker == replace(before[WORKER_1].worker, load=5)
        assert after[WORKER_1].seen_at > before[WORKER_1].seen_at
        assert after[WORKER_2] == before[WORKER_2]

    async def test_whoever_is_seen_is_told_its_record_with_its_orders(self, backend: StoreBackend) -> None:
        own, other = await backend.connect(), await backend.connect()
        for worker_id in (WORKER_1, WORKER_2):
            await own.workers.register(_worker(worker_id))
        assert await own.workers.seen({WORKER_2: 1, UNKNOWN: 3, WORKER_1: 2}) == await other.workers.list_all()
        assert await other.workers.order(WORKER_1, draining=True)
        [told] = await own.workers.seen({WORKER_1: 5})
        assert (told.orders.is_draining, told.worker.load) == (True, 5)
        assert told == (await _records(other))[WORKER_1]

    async def test_whoever_is_seen_after_its_end_is_told_nothing(self, backend: StoreBackend) -> None:
        own, other = await backend.connect(), await backend.connect()
        await own.workers.register(_worker())
        assert len(await own.workers.seen({WORKER_1: 1})) == 1
        await other.workers.retire([WORKER_1])
        assert await own.workers.seen({WORKER_1: 1}) == []
        assert await own.workers.seen({UNKNOWN: 1}) == []

    async def test_many_workers_are_seen_at_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for number in range(1, 21):
            await store.workers.register(_worker(WorkerId(number)))
        await store.workers.seen({WorkerId(number): number for number in range(1, 21)})
        assert [record.worker.load for record in await store.workers.list_all()] == list(range(1, 21))

    async def test_what_others_changed_since_a_worker_was_last_seen_stays(self, backend: StoreBackend) -> None:
        own, other = await backend.connect(), await backend.connect()
        await own.workers.register(_worker())
        await own.workers.seen({WORKER_1: 1})
        assert await other.workers.order(WORKER_1, capacity=3)
        await own.workers.seen({WORKER_1: 2})
        record = (await _records(other))[WORKER_1]
        assert (record.worker.load, record.orders.capacity) == (2, 3)
        await other.workers.retire([WORKER_1])
        await own.workers.seen({WORKER_1: 3})
        assert await other.workers.list_all() == []

    async def test_an_unknown_worker_is_neither_seen_nor_retired(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.workers.seen({UNKNOWN: 1})
        await store.workers.retire([UNKNOWN])
        assert await store.workers.list_all(alive_only=False) == []

    async def test_naming_nobody_changes_nothing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.workers.register(_worker())
        before = await _records(store)
        await store.workers.seen({})
        await store.workers.retire([])
        assert await _records(store) == before

    async def test_a_retired_worker_is_remembered_but_not_alive(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for worker_id in (WORKER_1, WORKER_2):
            await store.workers.register(_worker(worker_id, load=4))
        before = await store.tasks.now()
        await store.workers.retire([WORKER_1])
        assert [record.worker.id for record in await store.workers.list_all()] == [WORKER_2]
        retired = (await _records(store))[WORKER_1]
        assert retired.retired_at is not None
        assert retired.retired_at >= before
        assert retired.worker.load == 0

    async def test_retiring_again_keeps_the_first_time(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.workers.register(_worker())
        await store.workers.retire([WORKER_1])
        before = await _records(store)
        await backend.wait(backend.tick)
        await store.workers.retire([WORKER_1])
        assert await _records(store) == before

    async def test_being_seen_does_not_bring_a_retired_worker_back(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.workers.register(_worker())
        await store.workers.retire([WORKER_1])
        await store.workers.seen({WORKER_1: 1})
        assert await store.workers.list_all() == []

    async def test_a_late_registration_does_not_bring_a_retired_worker_back(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.workers.register(_worker())
        await store.workers.retire([WORKER_1])
        before = await _records(store)
        await backend.wait(backend.tick)
        await store.workers.register(_worker())
        assert await store.workers.list_all() == []
        after = await _records(store)
        assert after[WORKER_1].retired_at == before[WORKER_1].retired_at

    async def test_a_new_worker_has_no_orders(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.workers.register(_worker())
        assert (await _records(store))[WORKER_1].orders == WorkerOrders()

    async def test_an_order_is_kept_beside_what_the_worker_says_of_itself(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for worker_id in (WORKER_1, WORKER_2):
            await store.workers.register(_worker(worker_id))
        before = await _records(store)
        assert await store.workers.order(WORKER_1, capacity=3)
        assert await store.workers.order(WORKER_1, draining=True)
        await store.workers.register(_worker(WORKER_1))
        after = await _records(store)
        assert after[WORKER_1].worker == before[WORKER_1].worker
        orders = WorkerOrders(capacity=3, capacity_number=1, is_draining=True, draining_number=1)
        assert after[WORKER_1].orders == orders
        assert after[WORKER_2] == before[WORKER_2]

    async def test_each_wish_is_counted_for_itself(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.workers.register(_worker())
        await store.workers.order(WORKER_1, capacity=3, draining=True)
        await store.workers.order(WORKER_1, capacity=3)
        await store.workers.order(WORKER_1, draining=False)
        assert await store.workers.order(WORKER_1), "a wish for nothing changes nothing"
        orders = WorkerOrders(capacity=3, capacity_number=2, is_draining=False, draining_number=2)
        assert (await _records(store))[WORKER_1].orders == orders

    async def test_orders_to_the_unknown_and_the_retired_are_refused(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.workers.register(_worker())
        await store.workers.retire([WORKER_1])
        before = await _records(store)
        assert not await store.workers.order(WORKER_1, draining=True)
        assert not await store.workers.order(UNKNOWN, capacity=3)
        assert await _records(store) == before

    async def test_an_order_is_recorded_if_it_counts(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.workers.register(_worker())
        kept, dropped = (
            AuditEntry(id=number, tenant_id=DEFAULT_TENANT, at=NOON, actor="ada", action="worker.drain", object="1")
            for number in (1, 2)
        )
        await store.workers.order(WORKER_1, draining=True, audit=[kept])
        await store.workers.order(UNKNOWN, draining=True, audit=[dropped])
        assert await store.audit.list_page(DEFAULT_TENANT, before=None) == [kept]

    async def test_workers_are_listed_in_pages(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for number in range(1, 8):
            await store.workers.register(_worker(WorkerId(number)))
        await store.workers.retire([WorkerId(2), WorkerId(6)])
        assert await _list_ids(store.workers.list_all(limit=3)) == [1, 3, 4]
        assert await _list_ids(store.workers.list_all(after=WorkerId(4), limit=3)) == [5, 7]
        assert await _list_ids(store.workers.list_all(alive_only=False, after=WorkerId(4), limit=2)) == [5, 6]
        assert await _list_ids(store.workers.list_all(after=WorkerId(7))) == []

    async def test_workers_retired_before_a_moment_are_purged(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for number in (1, 2, 3):
            await store.workers.register(_worker(WorkerId(number)))
        await store.workers.retire([WorkerId(2)])
        await backend.wait(backend.tick)
        moment = await store.tasks.now()
        await backend.wait(backend.tick)
        await store.workers.retire([WorkerId(3)])
        assert await store.workers.purge(retired_before=moment, limit=HUGE) == 1
        assert await _list_ids(store.workers.list_all(alive_only=False)) == [1, 3]
        assert await store.workers.purge(retired_before=moment, limit=10) == 0

    async def test_workers_are_purged_up_to_a_limit_and_the_living_never(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for number in range(1, 7):
            await store.workers.register(_worker(WorkerId(number)))
        await store.workers.retire([WorkerId(number) for number in range(1, 6)])
        moment = await store.tasks.now() + HOUR
        answers = [await store.workers.purge(retired_before=moment, limit=3) for _ in range(3)]
        assert answers == [3, 2, 0]
        assert await _list_ids(store.workers.list_all(alive_only=False)) == [6]


def _worker(worker_id: WorkerId = WORKER_1, **changes: Any) -> Worker:
    return replace(Worker(id=worker_id, name=f"worker-{worker_id}"), **changes)


async def _list_ids(page: Any) -> list[WorkerId]:
    return [record.worker.id for record in await page]


async def _records(store: Store) -> dict[WorkerId, WorkerRecord]:
    return {record.worker.id: record for record in await store.workers.list_all(alive_only=False)}
