"""Deleting what is past its time."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from rota.application.ports.report import RollupRange
from rota.application.retain import Retain, Retention
from rota.application.roll_up import RollUp
from rota.domain.attempt import TaskResult
from rota.domain.errors import FencedError, UnavailableError
from rota.domain.firing import FullFiring
from rota.domain.ids import DEFAULT_TENANT, TaskId, WorkerId, first_id_at
from rota.domain.rollup import Figures, Grain, Progress, Reach, RollupKey, Step, micros
from rota.domain.schedule import Occurrence, Schedule
from rota.testing.faults import Fault
from tests.support.builders import EMAIL, HOUR, a_config, a_token, an_audit_entry
from tests.support.scene import Scene, a_scene, ids
from tests.support.virtual import virtually

DAY = timedelta(days=1)
REACHES = {grain: Reach().of(grain) for grain in Grain}


def a_retention(scene: Scene, batch: int = 2) -> Retain:
    return Retain(
        store=scene.store,
        time=scene.time,
        clock=scene.clock,
        retention=Retention(tasks=DAY, workers=HOUR),
        batch=batch,
    )


async def end(scene: Scene, *task_ids: int) -> None:
    await scene.add(*task_ids)
    await scene.grant(*task_ids)
    states = [await scene.state_of(task_id) for task_id in task_ids]
    await scene.actual_store.tasks.advance([state.succeeded(TaskResult(), at=scene.clock.now()) for state in states])


async def kept(scene: Scene, up_to: int) -> list[TaskId]:
    return sorted(await scene.actual_store.tasks.load(ids(range(up_to + 1))))


@virtually
async def test_what_ended_is_kept_for_its_time_and_then_deleted_in_batches() -> None:
    scene = await a_scene()
    await end(scene, *range(1, 6))
    await scene.add(6)
    await scene.pass_time((DAY / 2).total_seconds())
    await end(scene, 7)
    await a_retention(scene)(scene.reign)
    assert await kept(scene, 7) == [1, 2, 3, 4, 5, 6, 7]
    await scene.pass_time((DAY / 2).total_seconds() + 1)
    await a_retention(scene)(scene.reign)
    assert await kept(scene, 7) == [6, 7]


@virtually
async def test_retired_workers_are_forgotten_and_live_ones_never() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.join(2)
    await scene.actual_store.workers.retire([WorkerId(1)])
    await scene.pass_time(DAY.total_seconds())
    await a_retention(scene)(scene.reign)
    records = await scene.actual_store.workers.list_all(alive_only=False)
    assert [record.worker.id for record in records] == [2]


@virtually
async def test_the_record_and_ended_tokens_are_kept_for_400_days() -> None:
    scene = await a_scene()
    now, tokens = scene.clock.now(), scene.actual_store.tokens
    moments = {"old": now - 400 * DAY - HOUR, "young": now - 400 * DAY + HOUR}
    for name, moment in moments.items():
        entry = an_audit_entry(first_id_at(moment), at=moment, actor=name)
        await tokens.add(a_token(f"{name}, expired", expires_at=moment), audit=[entry])
        await tokens.add(a_token(f"{name}, revoked", revoked_at=moment))
        await tokens.add(a_token(f"{name}, good", created_at=moment))
    await Retain(store=scene.store, time=scene.time, clock=scene.clock)(scene.reign)
    kept = [token.id for token in await tokens.list_page(DEFAULT_TENANT)]
    assert kept == ["old, good", "young, expired", "young, good", "young, revoked"]
    assert [entry.actor for entry in await scene.actual_store.audit.list_page(DEFAULT_TENANT)] == ["young"]


@virtually
async def test_a_backlog_is_worked_off_in_one_go_however_long() -> None:
    scene = await a_scene()
    await end(scene, *range(1, 1011))
    await scene.pass_time(2 * DAY.total_seconds())
    await a_retention(scene, batch=1)(scene.reign)
    assert await kept(scene, 1010) == []


@virtually
async def test_what_cannot_be_deleted_keeps_nothing_else() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.actual_store.workers.retire([WorkerId(1)])
    await scene.pass_time(DAY.total_seconds())
    for operation in ("tasks.purge", "schedules.purge"):
        scene.faults.inject(operation, Fault.TIMEOUT)
    with capture_logs() as logs, pytest.raises(UnavailableError):
        await a_retention(scene)(scene.reign)
    assert await scene.actual_store.workers.list_all(alive_only=False) == []
    assert [entry["what"] for entry in logs if entry["event"] == "retention.failed"] == ["tasks", "occurrences"]


@virtually
async def test_a_leader_whose_reign_is_over_deletes_nothing() -> None:
    scene = await a_scene()
    await end(scene, 1)
    await scene.pass_time(2 * DAY.total_seconds())
    scene.reign.end()
    with pytest.raises(FencedError):
        await a_retention(scene)(scene.reign)
    assert await kept(scene, 1) == [1]


@virtually
async def test_occurrences_are_kept_as_long_as_tasks() -> None:
    scene = await a_scene()
    store, now = scene.actual_store, scene.clock.now()
    await store.configs.put(a_config(EMAIL, schedule=Schedule(every=HOUR), next_fire_at=now))
    targets = [now, now + HOUR, now + 2 * HOUR]
    skipped = tuple(Occurrence(task_type=EMAIL, fire_at=at, reason="overlap") for at in targets)
    firing = FullFiring(
        tenant_id=DEFAULT_TENANT, task_type=EMAIL, revision=1, seen_at=now, next_fire_at=None, occurrences=skipped
    )
    await store.schedules.fire([firing])
    await scene.pass_time((DAY + HOUR * 1.5).total_seconds())
    await a_retention(scene)(scene.reign)
    assert await store.schedules.list_occurrences(DEFAULT_TENANT, EMAIL) == [skipped[2]]


@virtually
async def test_what_no_report_has_counted_yet_is_kept_for_a_day() -> None:
    scene = await a_scene()
    retain = a_retention(scene)
    retain.tune(Retention(tasks=HOUR))
    first = first_id_at(scene.clock.now())
    await end(scene, first)
    await scene.pass_time(2 * HOUR.total_seconds())
    await retain(scene.reign)
    assert len(await scene.actual_store.tasks.load(ids([first]))) == 1, "it would be missing in every report"
    await RollUp(reports=scene.store.reports, time=scene.time, clock=scene.clock)(scene.reign)
    await retain(scene.reign)
    assert await scene.actual_store.tasks.load(ids([first])) == {}
    await end(scene, first + 1)
    await scene.pass_time(DAY.total_seconds() + 1)
    await retain(scene.reign)
    assert await scene.actual_store.tasks.load(ids([first + 1])) == {}


@virtually
async def test_sums_are_kept_as_long_as_reports_reach_back() -> None:
    scene = await a_scene()
    now, reports = scene.clock.now(), scene.actual_store.reports
    starts = {grain: [micros(now - reach - DAY), micros(now - reach + DAY)] for grain, reach in REACHES.items()}
    keys = [RollupKey(DEFAULT_TENANT, grain, start, EMAIL) for grain in starts for start in starts[grain]]
    added = {key: Figures(succeeded=1) for key in keys}
    assert await reports.roll_up(Step(before=Progress(), after=Progress(1), added=added, left={}))
    await a_retention(scene)(scene.reign)
    for grain, (_, young) in starts.items():
        found = await reports.list_rollups(RollupRange(DEFAULT_TENANT, grain, 0, micros(now)))
        assert [one.start_us for one in found] == [young]
