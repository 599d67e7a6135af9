"""Filling the queues from the store."""

from datetime import timedelta

import pytest

from rota.application import metrics
from rota.application.rebuild import RebuildQueues
from rota.domain.errors import CoordinatorUnavailableError, FencedError, StoreUnavailableError
from rota.domain.ids import NodeId
from rota.testing.faults import Fault
from tests.support.builders import HOUR, an_entry
from tests.support.scene import Scene, a_scene
from tests.support.virtual import virtually


def a_rebuild(scene: Scene) -> RebuildQueues:
    return RebuildQueues(
        tasks=scene.store.tasks,
        queue=scene.coordinator.queue,
        time=scene.time,
        collector=scene.figures,
        node_id=NodeId("a"),
        page=3,
    )


@virtually
async def test_a_lost_memory_is_filled_with_what_waits() -> None:
    scene = await a_scene()
    await scene.add(*range(1, 9))
    await scene.add(9, due_in=HOUR)
    await scene.grant(2, 3)
    await a_rebuild(scene).if_lost(scene.reign)
    assert await scene.queued() == [1, 4, 5, 6, 7, 8]
    assert (await scene.actual.queue.depths()).delayed == 1
    assert scene.figures.count(metrics.REBUILDS) == 1


@virtually
async def test_the_generation_is_named_after_the_stores_time_and_the_node() -> None:
    scene = await a_scene()
    await scene.pass_time(1)
    await a_rebuild(scene).if_lost(scene.reign)
    assert await scene.actual.queue.find_generation() == "1906545601000000-a"


@virtually
async def test_a_memory_that_is_there_is_left_alone() -> None:
    scene = await a_scene()
    await a_rebuild(scene).if_lost(scene.reign)
    await scene.actual.queue.push([an_entry(5)])
    await a_rebuild(scene).if_lost(scene.reign)
    assert await scene.queued() == [5]
    assert scene.figures.count(metrics.REBUILDS) == 1


@virtually
async def test_a_rebuild_that_was_cut_short_is_done_again() -> None:
    scene = await a_scene()
    await scene.add(1, 2)
    scene.faults.inject("tasks.list_live", Fault.GONE)
    with pytest.raises(StoreUnavailableError):
        await a_rebuild(scene).if_lost(scene.reign)
    scene.faults.inject("queue.rebuild", Fault.TIMEOUT)
    with pytest.raises(CoordinatorUnavailableError):
        await a_rebuild(scene).if_lost(scene.reign)
    assert await scene.actual.queue.find_generation() is None
    await a_rebuild(scene).if_lost(scene.reign)
    assert await scene.queued() == [1, 2]


@virtually
async def test_a_leader_whose_reign_is_over_empties_no_queue() -> None:
    scene = await a_scene()
    await scene.actual.queue.push([an_entry(5)])
    scene.reign.end()
    with pytest.raises(FencedError):
        await a_rebuild(scene).if_lost(scene.reign)
    assert await scene.queued() == [5]


@virtually
async def test_a_rebuild_stops_when_the_reign_ends_under_way() -> None:
    scene = await a_scene()
    await scene.add(*range(1, 10))
    rebuild = a_rebuild(scene)
    pages = rebuild._pages(scene.reign)
    assert len(await anext(pages)) == 3
    scene.reign.end()
    with pytest.raises(FencedError):
        await anext(pages)


@virtually
async def test_what_is_due_a_moment_later_is_delayed_until_then() -> None:
    scene = await a_scene()
    await scene.add(1, due_in=timedelta(seconds=1))
    await a_rebuild(scene).if_lost(scene.reign)
    assert await scene.queued() == []
    await scene.pass_time(1)
    assert (await scene.actual.queue.move_due(scene.clock.now(), 10)).moved == 1
