"""Task configs, as people change them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.application.audit import Actor
from rota.application.manage_configs import MOST_TRIES, ManageConfigs
from rota.application.submit import SubmitTasks
from rota.domain.cron.dialect import Dialect
from rota.domain.errors import ConflictError, InvalidError, NotFoundError, RevisionConflictError
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import Overlap, Schedule
from rota.domain.task_config import TaskConfig
from rota.testing.values import replace
from tests.support.builders import EMAIL, HOUR, MINUTE, a_config, a_submission
from tests.support.virtual import Bench, a_bench, pass_time, virtually

ADA = Actor(tenant_id=DEFAULT_TENANT, name="ada")
KEY = (DEFAULT_TENANT, EMAIL)
HOURLY = Schedule(cron="0 * * * *")


async def a_manager() -> tuple[Bench, ManageConfigs]:
    bench = await a_bench()
    return bench, ManageConfigs(bench.node, SubmitTasks(bench.node))


@virtually
async def test_a_config_is_put_found_listed_and_deleted() -> None:
    _, configs = await a_manager()
    assert (await configs.put(a_config(EMAIL), expected_revision=0)).revision == 1
    assert (await configs.get(*KEY)).type == EMAIL
    assert [config.type for config in await configs.list_page(DEFAULT_TENANT)] == [EMAIL]
    await configs.delete(*KEY)
    with pytest.raises(NotFoundError) as caught:
        await configs.get(*KEY)
    assert caught.value.code == "task_config_not_found"
    with pytest.raises(NotFoundError):
        await configs.delete(*KEY)


@virtually
async def test_only_the_revision_that_was_expected_is_replaced() -> None:
    _, configs = await a_manager()
    await configs.put(a_config(EMAIL))
    with pytest.raises(RevisionConflictError):
        await configs.put(a_config(EMAIL, name="other"), expected_revision=0)
    for wrong in (-1, 2**31):
        with pytest.raises(InvalidError, match="revision"):
            await configs.put(a_config(EMAIL), expected_revision=wrong)


@virtually
async def test_a_paused_type_takes_no_tasks_here_from_that_moment() -> None:
    _, configs = await a_manager()
    await configs.put(a_config(EMAIL))
    await configs.trigger(a_submission())
    assert not (await configs.pause(*KEY)).is_enabled
    assert not (await configs.pause(*KEY)).is_enabled, "once more changes nothing"
    with pytest.raises(InvalidError, match="is disabled; resume it first: rota config-type resume email"):
        await configs.trigger(a_submission())
    assert (await configs.resume(*KEY)).is_enabled
    assert not (await configs.trigger(a_submission())).is_repeat


@virtually
async def test_what_is_not_there_cannot_be_triggered() -> None:
    _, configs = await a_manager()
    with pytest.raises(NotFoundError):
        await configs.trigger(a_submission())


@virtually
async def test_every_change_is_recorded() -> None:
    bench, configs = await a_manager()
    await configs.put(a_config(EMAIL), actor=ADA)
    await configs.pause(*KEY, actor=ADA)
    await configs.resume(*KEY, actor=ADA)
    await configs.delete(*KEY, actor=ADA)
    entries = await bench.node.store.audit.list_page(DEFAULT_TENANT)
    actions = [(entry.action, entry.object) for entry in entries[::-1]]
    assert actions == [(f"config.{verb}", EMAIL) for verb in ("put", "pause", "resume", "delete")]


@pytest.mark.parametrize("times", [1, MOST_TRIES])
@virtually
async def test_a_config_that_changes_meanwhile_is_read_again(times: int) -> None:
    bench, configs = await a_manager()
    await configs.put(a_config(EMAIL))
    store, changes = bench.node.store.configs, times
    find = store.find

    async def find_and_change(*key: str) -> TaskConfig | None:
        nonlocal changes
        found = await find(*KEY)
        if found is not None and changes:
            changes -= 1
            await store.put(replace(found, description=f"changed {changes}"))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "find", find_and_change)
        if times < MOST_TRIES:
            assert not (await configs.pause(*KEY)).is_enabled
        else:
            with pytest.raises(ConflictError, match="try again"):
                await configs.pause(*KEY)


@pytest.mark.parametrize("times", [1, MOST_TRIES])
@virtually
async def test_a_put_replaces_the_config_that_it_has_read(times: int) -> None:
    bench, configs = await a_manager()
    await configs.put(a_config(EMAIL))
    store, changes = bench.node.store.configs, times
    put = store.put

    async def change_and_put(config: TaskConfig, **asked: Any) -> TaskConfig:
        nonlocal changes
        if changes:
            changes -= 1
            await put(a_config(EMAIL, description=f"changed {changes}"))
        return await put(config, **asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "put", change_and_put)
        if times < MOST_TRIES:
            assert (await configs.put(a_config(EMAIL, description="last"))).revision == 3
        else:
            with pytest.raises(ConflictError, match="try again"):
                await configs.put(a_config(EMAIL, description="last"))


@virtually
async def test_a_config_that_its_executor_could_not_run_is_refused_and_nothing_changes() -> None:
    def refuse(config: TaskConfig) -> None:
        raise InvalidError("executor.url", "is missing")

    bench, _ = await a_manager()
    configs = ManageConfigs(bench.node, SubmitTasks(bench.node), refuse)
    with pytest.raises(InvalidError, match=r"executor\.url"):
        await configs.put(a_config())
    with pytest.raises(NotFoundError):
        await configs.get(DEFAULT_TENANT, EMAIL)


@virtually
async def test_a_schedule_fires_from_when_it_is_put_and_keeps_its_time_when_something_else_changes() -> None:
    bench, configs = await a_manager()
    stored = await configs.put(a_config(EMAIL, schedule=HOURLY))
    assert stored.next_fire_at is not None
    assert bench.clock.now() < stored.next_fire_at <= bench.clock.now() + HOUR
    await pass_time(HOUR.total_seconds())
    renamed = await configs.put(a_config(EMAIL, schedule=HOURLY, name="other"))
    assert renamed.next_fire_at == stored.next_fire_at, "it is due, and must fire"
    assert (await configs.pause(*KEY)).next_fire_at == stored.next_fire_at
    other = await configs.put(a_config(EMAIL, schedule=Schedule(every=MINUTE)))
    assert other.next_fire_at is not None
    assert other.next_fire_at > bench.clock.now()
    assert (await configs.put(a_config(EMAIL))).next_fire_at is None


@virtually
async def test_a_schedule_that_cannot_be_fired_is_refused() -> None:
    bench, configs = await a_manager()
    with pytest.raises(InvalidError, match="max_concurrent"):
        await configs.put(a_config(EMAIL, schedule=replace(HOURLY, overlap=Overlap.QUEUE_ONE)))
    assert await bench.node.store.configs.find(*KEY) is None


@virtually
async def test_many_schedules_that_were_paused_for_a_day_resume_without_a_storm() -> None:
    bench, configs = await a_manager()
    store = bench.node.store
    types = [f"type-{number}" for number in range(1_000)]
    paused = a_config(EMAIL, schedule=Schedule(every=MINUTE), is_enabled=False)
    for task_type in types:
        await store.configs.put(replace(paused, type=task_type, next_fire_at=bench.clock.now() + MINUTE))
    await pass_time(24 * HOUR.total_seconds())
    for task_type in types:
        await configs.resume(DEFAULT_TENANT, task_type)
    assert await store.schedules.list_due(10) == []
    assert await store.tasks.count_by_status(DEFAULT_TENANT) == {}
    for task_type in types:
        [skipped] = await store.schedules.list_occurrences(DEFAULT_TENANT, task_type)
        assert (skipped.reason, skipped.since) == ("paused", bench.clock.now() - 24 * HOUR + MINUTE)


@virtually
async def test_putting_an_enabled_config_resumes_it_unless_another_revision_was_expected() -> None:
    bench, configs = await a_manager()
    await configs.put(a_config(EMAIL, schedule=HOURLY, is_enabled=False))
    await pass_time(5 * HOUR.total_seconds())
    with pytest.raises(RevisionConflictError):
        await configs.put(a_config(EMAIL, schedule=HOURLY), expected_revision=7)
    assert await bench.node.store.schedules.list_occurrences(*KEY) == []
    stored = await configs.put(a_config(EMAIL, schedule=HOURLY), expected_revision=1)
    assert stored.next_fire_at is not None
    assert stored.next_fire_at > bench.clock.now()
    assert len(await bench.node.store.schedules.list_occurrences(*KEY)) == 1


@virtually
async def test_a_type_is_brought_back_as_it_was_in_a_new_revision() -> None:
    bench, configs = await a_manager()
    first = await configs.put(a_config(EMAIL, name="first", schedule=HOURLY))
    await configs.put(a_config(EMAIL, name="second"))
    assert [one.name for one in await configs.list_revisions(*KEY, limit=5)] == ["second", "first"]
    back = await configs.roll_back(KEY, 1, actor=ADA)
    assert (back.name, back.revision, back.next_fire_at) == ("first", 3, first.next_fire_at)
    assert (first.updated_by, back.updated_by) == ("", ADA.name)
    with pytest.raises(RevisionConflictError):
        await configs.roll_back(KEY, 2, expected_revision=2)
    await configs.delete(*KEY)
    assert (await configs.roll_back(KEY, 2, expected_revision=0)).name == "second"
    assert (await configs.pause(*KEY, actor=ADA)).updated_by == ADA.name
    assert [entry.action for entry in await bench.node.store.audit.list_page(DEFAULT_TENANT)] == [
        "config.pause",
        "config.put",
    ]


@virtually
async def test_a_revision_that_is_not_there_is_told_as_such() -> None:
    _, configs = await a_manager()
    with pytest.raises(NotFoundError) as caught:
        await configs.list_revisions(*KEY, limit=5)
    assert caught.value.code == "task_config_not_found"
    await configs.put(a_config(EMAIL))
    with pytest.raises(NotFoundError) as caught:
        await configs.roll_back(KEY, 7)
    assert caught.value.code == "task_config_revision_not_found"
    with pytest.raises(InvalidError, match="revision"):
        await configs.roll_back(KEY, 0)


@virtually
async def test_a_check_refuses_what_a_put_refuses_and_changes_nothing() -> None:
    bench, configs = await a_manager()
    aimed = await configs.check_put(a_config(EMAIL, schedule=HOURLY))
    assert (aimed.revision, aimed.next_fire_at is not None) == (0, True)
    assert not await configs.list_page(DEFAULT_TENANT)
    queued = Schedule(cron="0 * * * *", overlap=Overlap.QUEUE_ONE)
    unknown = Schedule(cron="0 * * * *", only=("cn",))
    listed = Schedule(cron="0 * * * *", payload="[1]")
    for schedule in (queued, unknown, listed):
        with pytest.raises(InvalidError, match="schedule"):
            await configs.check_put(a_config(EMAIL, schedule=schedule))
    await configs.put(a_config(EMAIL))
    assert (await configs.check_put(a_config(EMAIL), expected_revision=1)).revision == 1
    with pytest.raises(RevisionConflictError):
        await configs.check_put(a_config(EMAIL), expected_revision=0)
    with pytest.raises(InvalidError, match="revision"):
        await configs.check_put(a_config(EMAIL), expected_revision=-1)
    assert len(await bench.node.store.audit.list_page(DEFAULT_TENANT)) == 0


ENDED = [
    ("schedule.cron", {"cron": "0 0 12 * * ? 2020", "dialect": Dialect.QUARTZ}, "2020-12-31T12:00:00Z"),
    ("schedule.at", {"at": (datetime(2020, 1, 1, tzinfo=UTC),)}, "2020-01-01T00:00:00Z"),
    ("schedule.end_at", {"cron": "0 0 * * *", "end_at": datetime(2020, 1, 1, tzinfo=UTC)}, "2019-12-31T00:00:00Z"),
]


@pytest.mark.parametrize(("field", "schedule", "last"), ENDED)
def test_a_new_schedule_that_would_never_fire_is_refused(field: str, schedule: dict[str, Any], last: str) -> None:
    @virtually
    async def put() -> None:
        _, configs = await a_manager()
        with pytest.raises(InvalidError) as caught:
            await configs.put(a_config(EMAIL, schedule=Schedule(**schedule)))
        assert str(caught.value) == f"{field}: would never fire: its last time was {last}"

    put()


@virtually
async def test_a_schedule_whose_bounds_hold_no_time_is_refused() -> None:
    bench, configs = await a_manager()
    now = bench.node.time.now()
    leap_day = Schedule(cron="0 0 29 2 *", start_at=now + HOUR, end_at=now + HOUR + MINUTE)
    for schedule in (leap_day, Schedule(every=timedelta(days=300), end_at=now + MINUTE)):
        with pytest.raises(InvalidError, match="would never fire"):
            await configs.put(a_config(EMAIL, schedule=schedule))


@virtually
async def test_a_schedule_that_has_ended_can_be_put_again_with_other_options() -> None:
    bench, configs = await a_manager()
    once = Schedule(at=(bench.node.time.now() + MINUTE,))
    await configs.put(a_config(EMAIL, schedule=once))
    await pass_time(HOUR.total_seconds())
    assert (await configs.put(a_config(EMAIL, schedule=once, name="later"))).revision == 2
