"""Task configs as one node knows them."""

from rota.application import config_cache
from rota.application.config_cache import KEEP, ConfigCache
from rota.domain.ids import DEFAULT_TENANT
from rota.testing.faults import Fault
from tests.support.builders import EMAIL, a_config
from tests.support.virtual import Bench, a_bench, virtually


async def a_cache() -> tuple[Bench, ConfigCache]:
    bench = await a_bench()
    await bench.node.store.configs.put(a_config(EMAIL))
    return bench, bench.node.configs


@virtually
async def test_a_config_is_read_once_in_a_while() -> None:
    bench, cache = await a_cache()
    first = await cache.find(DEFAULT_TENANT, EMAIL)
    bench.faults.inject("configs.find", Fault.TIMEOUT)
    assert await cache.find(DEFAULT_TENANT, EMAIL) == first
    assert bench.faults.pending == {"configs.find": 1}


@virtually
async def test_a_config_that_is_missing_is_asked_for_every_time() -> None:
    bench, cache = await a_cache()
    assert await cache.find(DEFAULT_TENANT, "report") is None
    await bench.node.store.configs.put(a_config("report"))
    assert await cache.find(DEFAULT_TENANT, "report") is not None


@virtually
async def test_a_deleted_config_is_gone_after_a_while() -> None:
    bench, cache = await a_cache()
    await cache.find(DEFAULT_TENANT, EMAIL)
    await bench.node.store.configs.delete(DEFAULT_TENANT, EMAIL)
    await bench.clock.sleep(KEEP)
    assert await cache.find_all([(DEFAULT_TENANT, EMAIL)]) == {}


@virtually
async def test_what_this_node_changed_is_seen_at_once() -> None:
    bench, cache = await a_cache()
    await cache.find(DEFAULT_TENANT, EMAIL)
    await bench.node.store.configs.put(a_config(EMAIL, description="new"))
    cache.forget(DEFAULT_TENANT, EMAIL)
    found = await cache.find(DEFAULT_TENANT, EMAIL)
    assert found is not None
    assert found.description == "new"


@virtually
async def test_however_many_are_wanted_the_store_is_asked_once() -> None:
    bench, cache = await a_cache()
    types = [f"type{number}" for number in range(50)]
    for task_type in types:
        await bench.node.store.configs.put(a_config(task_type))
    keys = [(DEFAULT_TENANT, task_type) for task_type in (*types, "missing", EMAIL)]
    await cache.find(DEFAULT_TENANT, EMAIL)
    bench.faults.inject("configs.find", Fault.TIMEOUT)
    found = await cache.find_all(keys)
    assert found.keys() == set(keys) - {(DEFAULT_TENANT, "missing")}
    bench.faults.inject("configs.find_many", Fault.TIMEOUT)
    assert await cache.find_all(found) == found
    assert bench.faults.pending == {"configs.find": 1, "configs.find_many": 1}


@virtually
async def test_the_cache_is_bounded() -> None:
    _, cache = await a_cache()
    for number in range(config_cache.MOST + 1):
        cache._known[DEFAULT_TENANT, f"type{number}"] = (a_config(EMAIL), 0.0)
    await cache.find(DEFAULT_TENANT, EMAIL)
    assert len(cache._known) == 1
