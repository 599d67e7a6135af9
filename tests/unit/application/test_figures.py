"""Numbers about the cluster: right, shared, and cheap."""

import asyncio
from datetime import timedelta

import pytest

from rota.application import backlog
from rota.application.attend import ALIVE_FOR
from rota.application.figures import MOST_TENANTS, Figures
from rota.application.steer import SteerTasks
from rota.application.submit import SubmitTasks
from rota.domain.attempt import Attempt, TaskError, TaskResult
from rota.domain.errors import CoordinatorUnavailableError, StoreUnavailableError
from rota.domain.ids import DEFAULT_TENANT, NodeId, TaskId, TenantId, WorkerId
from rota.domain.node import NodeInfo
from rota.domain.priority import HIGH, LEVELS, NORMAL
from rota.domain.task import BLOCKED, CANCELLED, PENDING, PROCESSING, SUCCESS
from rota.testing.faults import Fault
from tests.support.builders import (
    HOUR,
    MINUTE,
    SECOND,
    a_config,
    a_new_task,
    a_state,
    a_submission,
    a_worker,
    an_attempt,
)
from tests.support.virtual import Bench, a_bench, pass_time, virtually

WORKER = WorkerId(5)
AN_ERROR = TaskError(code="timeout", message="too long")


async def an_observatory() -> tuple[Bench, Figures]:
    bench = await a_bench()
    await bench.node.store.configs.put(a_config())
    return bench, Figures(bench.node, store="memory", coordinator="redis")


async def submit(bench: Bench, count: int = 1, **wish: object) -> list[TaskId]:
    await bench.node.ids.keep()
    added = await SubmitTasks(bench.node).submit_many([a_submission(**wish) for _ in range(count)])
    return [one.task_id for one in added]


async def grant(bench: Bench, task_ids: list[TaskId]) -> list[Attempt]:
    tasks = await bench.node.store.tasks.load(task_ids)
    at = bench.clock.now()
    steps = [task.state.granted(WORKER, term=1, at=at, timeout=MINUTE) for task in tasks.values()]
    await bench.node.store.tasks.advance(steps)
    return [an_attempt(step.after) for step in steps]


async def end(bench: Bench, task_ids: list[TaskId], *, is_late: bool = False) -> None:
    tasks = (await bench.node.store.tasks.load(task_ids)).values()
    at = bench.clock.now()
    steps = [
        task.state.timed_out(AN_ERROR, at=at) if is_late else task.state.succeeded(TaskResult(), at=at)
        for task in tasks
    ]
    await bench.node.store.tasks.advance(steps)


@virtually
async def test_empty_queues_have_all_levels_the_most_urgent_first() -> None:
    _, figures = await an_observatory()
    queues = await figures.queues()
    assert [level.priority for level in queues.items] == sorted(LEVELS, reverse=True)
    assert {(level.ready, level.oldest_age_seconds) for level in queues.items} == {(0, None)}
    assert (queues.delayed, queues.assigned, queues.running) == (0, 0, 0)


@virtually
async def test_queues_are_counted_with_the_age_of_their_first() -> None:
    bench, figures = await an_observatory()
    await submit(bench, 2)
    await pass_time(30)
    await submit(bench, 1, priority=HIGH)
    await submit(bench, 3, delay=HOUR)
    await bench.node.coordinator.pool.register(a_worker(WORKER), HOUR)
    await bench.node.coordinator.deliveries.assign(await grant(bench, await submit(bench, 3, priority=1)))
    await bench.node.coordinator.deliveries.take(WORKER, 1, wait=timedelta(0))
    await pass_time(5)
    queues = await figures.queues()
    levels = {level.priority: (level.ready, level.oldest_age_seconds) for level in queues.items if level.ready}
    assert levels == {HIGH: (1, pytest.approx(5)), NORMAL: (2, pytest.approx(35)), 1: (3, None)}
    assert (queues.delayed, queues.assigned, queues.running) == (3, 2, 1)


@virtually
async def test_a_cancelled_task_at_the_head_has_no_age() -> None:
    bench, figures = await an_observatory()
    [task_id] = await submit(bench)
    await SteerTasks(bench.node).cancel(task_id, DEFAULT_TENANT)
    [normal] = [level for level in (await figures.queues()).items if level.priority == NORMAL]
    assert normal.oldest_age_seconds is None


@virtually
async def test_without_a_coordinator_the_queues_are_unknown() -> None:
    bench, figures = await an_observatory()
    bench.faults.inject("queue.depths", Fault.GONE)
    with pytest.raises(CoordinatorUnavailableError):
        await figures.queues()
    await pass_time(1)
    await figures.queues()


@virtually
async def test_all_who_wait_hear_at_once_that_there_is_no_answer() -> None:
    bench, figures = await an_observatory()
    bench.faults.inject("queue.depths", Fault.GONE)
    answers = await asyncio.gather(*(figures.queues() for _ in range(8)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [CoordinatorUnavailableError] * 8


@virtually
async def test_the_first_rates_are_those_of_a_second() -> None:
    bench, figures = await an_observatory()
    await submit(bench, 50)
    asked = asyncio.create_task(figures.stats(DEFAULT_TENANT))
    await pass_time(0.5)
    await submit(bench, 4)
    stats = await asked
    assert stats.tasks == {PENDING: 54}
    assert stats.window_seconds == pytest.approx(1)
    assert stats.created_per_second == pytest.approx(4)
    assert (stats.completed_per_second, stats.failed_per_second) == (0, 0)


@virtually
async def test_rates_are_those_of_the_last_minute() -> None:
    bench, figures = await an_observatory()
    await figures.stats(DEFAULT_TENANT)
    ids = await submit(bench, 120)
    for _ in range(6):
        await pass_time(10)
        await figures.stats(DEFAULT_TENANT)
    await grant(bench, ids[:90])
    await end(bench, ids[:60])
    await end(bench, ids[60:90], is_late=True)
    await bench.node.store.tasks.purge(completed_before=bench.clock.now() + HOUR, limit=50)
    await SteerTasks(bench.node).cancel(ids[90], DEFAULT_TENANT)
    await pass_time(10)
    stats = await figures.stats(DEFAULT_TENANT)
    assert 60 <= stats.window_seconds < 71
    assert stats.created_per_second * stats.window_seconds == pytest.approx(0), "they were made before that"
    assert stats.completed_per_second * stats.window_seconds == pytest.approx(60), "also those that are purged"
    assert stats.failed_per_second * stats.window_seconds == pytest.approx(30)
    assert stats.tasks[PENDING] == 29
    assert stats.tasks[CANCELLED] == 1


@virtually
async def test_after_a_minute_without_questions_the_rates_begin_anew() -> None:
    bench, figures = await an_observatory()
    await figures.stats(DEFAULT_TENANT)
    await pass_time(600)
    await submit(bench, 100)
    stats = await figures.stats(DEFAULT_TENANT)
    assert stats.window_seconds == pytest.approx(1)
    assert stats.created_per_second == 0


@virtually
async def test_tenants_have_their_own_figures() -> None:
    bench, figures = await an_observatory()
    await submit(bench)
    ours, theirs = await asyncio.gather(figures.stats(DEFAULT_TENANT), figures.stats(TenantId("other")))
    assert (ours.tasks, theirs.tasks) == ({PENDING: 1}, {})


@virtually
async def test_a_failed_look_leaves_the_next_one_sound() -> None:
    bench, figures = await an_observatory()
    await figures.stats(DEFAULT_TENANT)
    await pass_time(600)
    bench.faults.inject("tasks.count_by_status", Fault.GONE)
    with pytest.raises(StoreUnavailableError):
        await figures.stats(DEFAULT_TENANT)
    await pass_time(1)
    [task_id] = await submit(bench)
    await grant(bench, [task_id])
    stats = await figures.stats(DEFAULT_TENANT)
    assert stats.tasks == {PROCESSING: 1}
    await end(bench, [task_id])
    await pass_time(3)
    stats = await figures.stats(DEFAULT_TENANT)
    assert stats.tasks == {SUCCESS: 1}
    assert stats.completed_per_second > 0


@virtually
async def test_all_who_ask_at_once_get_one_answer() -> None:
    bench, figures = await an_observatory()
    bench.faults.inject("queue.depths", Fault.GONE, times=None)
    await asyncio.gather(*(figures.queues() for _ in range(3)), return_exceptions=True)
    bench.faults.heal()
    await pass_time(1)
    first = await figures.queues()
    await submit(bench)
    assert await figures.queues() is first
    await pass_time(1.1)
    assert (await figures.queues()).items[-1].ready == 1


@virtually
async def test_an_answer_that_took_long_is_kept_for_long() -> None:
    bench, figures = await an_observatory()
    depths = bench.node.coordinator.queue.depths

    async def slowly() -> object:
        await bench.clock.sleep(SECOND * 3)
        return await depths()

    setattr(bench.node.coordinator.queue, "depths", slowly)  # noqa: B010 mypy knows that it is a method
    first = await figures.queues()
    await pass_time(29)
    assert await figures.queues() is first
    await pass_time(2)
    assert await figures.queues() is not first


@virtually
async def test_the_figures_of_so_many_tenants_are_kept_and_no_more() -> None:
    _, figures = await an_observatory()
    tenants = [TenantId(f"tenant-{number}") for number in range(MOST_TENANTS + 1)]
    await asyncio.gather(*map(figures.stats, tenants))
    assert list(figures._tenants) == tenants[1:]


@virtually
async def test_the_cluster_shows_who_leads_and_who_lives() -> None:
    bench, figures = await an_observatory()
    node, store = bench.node, bench.node.store
    await store.nodes.seen(NodeInfo(id=NodeId("dead")))
    await bench.clock.sleep(ALIVE_FOR * 2)
    for one in (
        NodeInfo(id=node.id, roles=("api", "scheduler"), version="7", address="host"),
        NodeInfo(id=NodeId("z")),
    ):
        await store.nodes.seen(one)
    await node.coordinator.election.campaign(node.id, MINUTE)
    term = await store.terms.begin(node.id)
    cluster = await figures.cluster()
    assert (cluster.leader, cluster.term, cluster.store, cluster.coordinator) == (node.id, term, "memory", "redis")
    leader, other = cluster.nodes
    assert (leader.id, leader.roles, leader.is_leader, leader.version) == (node.id, ("api", "scheduler"), True, "7")
    assert (other.id, other.is_leader) == ("z", False)
    assert leader.started_at == leader.seen_at <= cluster.now
    assert cluster.store_seconds >= 0
    assert cluster.coordinator_seconds is not None


@virtually
async def test_without_a_coordinator_nobody_is_known_to_lead() -> None:
    bench, figures = await an_observatory()
    await bench.node.coordinator.election.campaign(bench.node.id, MINUTE)
    bench.faults.inject("election.find_leader", Fault.GONE)
    cluster = await figures.cluster()
    assert (cluster.leader, cluster.coordinator_seconds) == (None, None)


@virtually
async def test_what_waits_and_runs_is_counted_by_type_with_the_age_of_the_first() -> None:
    bench, figures = await an_observatory()
    await bench.node.store.configs.put(a_config(type="other"))
    await submit(bench, 1)
    blocked = a_new_task(1, type="other", state=a_state(1, status=BLOCKED))
    await bench.node.store.tasks.add([blocked])
    await pass_time(30)
    await submit(bench, 2)
    await submit(bench, 4, type="other", delay=HOUR)
    await grant(bench, await submit(bench, 3))
    await pass_time(5)
    found = await figures.backlog()
    assert found.is_complete
    first, second = found.types[DEFAULT_TENANT]
    assert (first.type, first.ready, first.delayed, first.blocked, first.running) == ("other", 0, 4, 1, 0)
    assert first.oldest_age_seconds is None
    assert (second.ready, second.delayed, second.blocked, second.running) == (3, 0, 0, 3)
    assert second.oldest_age_seconds == pytest.approx(35)
    assert await figures.backlog() is found  # one answer for all who ask at once


@virtually
async def test_what_is_due_and_not_in_the_queue_was_set_aside() -> None:
    bench, figures = await an_observatory()
    await submit(bench, 4)
    await bench.node.store.configs.put(a_config(tenant_id=TenantId("other")))
    await submit(bench, 3, tenant_id=TenantId("other"))
    await submit(bench, 2, delay=HOUR)
    assert (await figures.backlog()).set_aside == 0
    assert len((await bench.node.coordinator.queue.take(5, order=LEVELS)).task_ids) == 5
    await pass_time(5)
    assert (await figures.backlog()).set_aside == 5, "of all tenants, as the queue is"


@virtually
async def test_without_a_coordinator_it_is_not_known_what_was_set_aside() -> None:
    bench, figures = await an_observatory()
    await submit(bench)
    bench.faults.inject("queue.depths", Fault.GONE)
    found = await figures.backlog()
    assert ([one.ready for one in found.types[DEFAULT_TENANT]], found.set_aside) == ([1], None)


@virtually
async def test_more_than_is_counted_makes_the_numbers_lower_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "MOST_COUNTED", 3)
    monkeypatch.setattr(backlog, "PAGE", 2)
    bench, figures = await an_observatory()
    await submit(bench, 5)
    found = await figures.backlog()
    assert not found.is_complete
    assert found.set_aside is None
    assert [one.ready for one in found.types[DEFAULT_TENANT]] == [4]
