"""Looking at workers and giving them orders, from any node."""

import pytest

from rota.application.audit import Actor
from rota.application.manage_workers import ManageWorkers
from rota.domain.errors import ConflictError, InvalidError, NotFoundError, StoreUnavailableError
from rota.domain.ids import DEFAULT_TENANT, WorkerId
from rota.domain.worker import WorkerOrders, order_mark
from rota.testing.faults import Fault
from tests.support.builders import HOUR, a_worker
from tests.support.virtual import Bench, a_bench, virtually

ONE, TWO, UNKNOWN = WorkerId(1), WorkerId(2), WorkerId(3)


async def an_office() -> tuple[Bench, ManageWorkers]:
    """Two workers, of which the first is alive and the second has retired."""
    bench = await a_bench()
    for worker_id in (ONE, TWO):
        await bench.node.store.workers.register(a_worker(worker_id))
    await bench.node.store.workers.retire([TWO])
    await bench.node.coordinator.pool.register(a_worker(ONE), HOUR)
    return bench, ManageWorkers(bench.node)


@virtually
async def test_workers_are_listed_with_those_that_have_retired() -> None:
    _, office = await an_office()
    assert [record.worker.id for record in await office.list()] == [ONE, TWO]
    assert [record.worker.id for record in await office.list(after=ONE, limit=5)] == [TWO]
    assert [record.worker.id for record in await office.list(alive_only=True)] == [ONE]


@virtually
async def test_a_worker_is_found_by_its_id_alive_or_not() -> None:
    _, office = await an_office()
    assert (await office.get(ONE)).retired_at is None
    assert (await office.get(TWO)).retired_at is not None
    for unknown in (UNKNOWN, WorkerId(0)):
        with pytest.raises(NotFoundError) as caught:
            await office.get(unknown)
        assert caught.value.code == "worker_not_found"


@virtually
async def test_the_coordinator_knows_who_is_alive_and_the_store_while_it_is_away() -> None:
    bench, office = await an_office()
    await bench.node.store.workers.register(a_worker(UNKNOWN))
    assert await office.list_alive() == {ONE}
    bench.faults.inject("pool.list_alive", Fault.GONE)
    assert await office.list_alive() == {ONE, UNKNOWN}


@virtually
async def test_an_order_is_kept_and_signalled() -> None:
    bench, office = await an_office()
    assert (await office.drain(ONE)).orders == WorkerOrders(is_draining=True, draining_number=1)
    assert await bench.node.coordinator.signals.find_cancelled([order_mark(ONE)]) == {order_mark(ONE)}
    assert (await office.resume(ONE)).orders == WorkerOrders(is_draining=False, draining_number=2)
    resized = await office.set_capacity(ONE, 7)
    assert (resized.orders.capacity, resized.orders.capacity_number) == (7, 1)
    assert resized.orders.is_draining is False


@virtually
async def test_an_order_is_recorded_with_who_asked_for_it() -> None:
    bench, office = await an_office()
    ada = Actor(tenant_id=DEFAULT_TENANT, name="ada", address="10.0.0.1")
    await office.drain(ONE, actor=ada)
    await office.resume(ONE, actor=ada)
    await office.set_capacity(ONE, 7, actor=ada)
    with pytest.raises(ConflictError):
        await office.drain(TWO, actor=ada)
    await office.drain(ONE)
    entries = await bench.node.store.audit.list_page(DEFAULT_TENANT, before=None)
    kept = [(entry.actor, entry.address, entry.action, entry.object, entry.detail) for entry in reversed(entries)]
    assert kept == [
        ("ada", "10.0.0.1", "worker.drain", "1", ""),
        ("ada", "10.0.0.1", "worker.resume", "1", ""),
        ("ada", "10.0.0.1", "worker.patch", "1", "capacity 7"),
    ]


@virtually
async def test_an_order_that_cannot_be_signalled_is_kept_all_the_same() -> None:
    bench, office = await an_office()
    bench.faults.inject("signals.request_cancel", Fault.GONE)
    assert (await office.set_capacity(ONE, 7)).orders.capacity == 7


@virtually
async def test_an_order_that_cannot_be_kept_is_an_error() -> None:
    bench, office = await an_office()
    bench.faults.inject("workers.order", Fault.GONE)
    with pytest.raises(StoreUnavailableError):
        await office.drain(ONE)


@virtually
async def test_nobody_can_be_ordered_who_does_not_exist_or_has_retired() -> None:
    _, office = await an_office()
    with pytest.raises(NotFoundError):
        await office.drain(UNKNOWN)
    with pytest.raises(ConflictError, match="has retired"):
        await office.resume(TWO)


@pytest.mark.parametrize("capacity", [0, -1, 1001])
def test_a_capacity_out_of_range_is_refused_and_nothing_is_ordered(capacity: int) -> None:
    @virtually
    async def scene() -> None:
        _, office = await an_office()
        with pytest.raises(InvalidError) as caught:
            await office.set_capacity(ONE, capacity)
        assert caught.value.field == "capacity"
        assert (await office.get(ONE)).orders == WorkerOrders()

    scene()
