"""What becomes of targets that have passed when a config is changed, on virtual time."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from rota.application.manage_configs import ManageConfigs
from rota.application.submit import SubmitTasks
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.firing import NEVER_RAN, Firing, decide, due_of, firing_of
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.schedule import Occurrence, OnMissed, Overlap, Schedule
from tests.support.builders import EMAIL, HOUR, MINUTE, SECOND, a_config
from tests.support.virtual import pass_time, virtually
from tests.unit.application.test_fire import DAY, Leader, a_leader

KEY = (DEFAULT_TENANT, EMAIL)
EVERY_MINUTE = Schedule(every=MINUTE, on_missed=OnMissed.RUN_ALL, overlap=Overlap.ALLOW)


def configs_of(leader: Leader) -> ManageConfigs:
    return ManageConfigs(leader.node, SubmitTasks(leader.node))


async def noted(leader: Leader) -> list[tuple[str, float]]:
    """What became of the targets, with the seconds that a range has."""
    found = await leader.occurrences()
    return [(one.reason or "fired", (one.fire_at - (one.since or one.fire_at)).total_seconds()) for one in found]


@virtually
async def test_resuming_after_the_end_of_a_schedule_fires_nothing_that_is_noted_as_paused() -> None:
    leader = await a_leader()
    configs, now = configs_of(leader), leader.node.time.now()
    schedule = Schedule(every=10 * SECOND, end_at=now + 65 * SECOND, on_missed=OnMissed.RUN_ALL, overlap=Overlap.ALLOW)
    await leader.put(schedule)
    await configs.pause_schedule(*KEY)
    await pass_time(300)

    resumed = await configs.resume_schedule(*KEY)
    await leader.fire()

    assert [reason for reason, _ in await noted(leader)] == ["paused"]
    assert resumed.next_fire_at is None
    assert await leader.truth.tasks.count_by_status(None) == {}


@virtually
@pytest.mark.parametrize("wanted", [Schedule(every=2 * MINUTE), None])
async def test_what_is_overdue_when_a_schedule_is_replaced_is_on_record(wanted: Schedule | None) -> None:
    leader = await a_leader()
    await leader.put(EVERY_MINUTE)
    await pass_time(600)

    await configs_of(leader).put(a_config(EMAIL, schedule=wanted))
    await leader.fire()

    assert await noted(leader) == [("replaced", 540.0)]


@virtually
async def test_a_target_that_waits_for_its_jitter_when_a_schedule_is_replaced_is_on_record() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=HOUR, jitter=40 * MINUTE))
    config = await configs_of(leader).get(*KEY)
    assert config.next_fire_at is not None
    await pass_time((config.next_fire_at - leader.node.time.now()).total_seconds() - 1)

    await leader.put(Schedule(every=HOUR, jitter=39 * MINUTE))
    await pass_time(10)
    await leader.fire()

    [one] = await leader.occurrences()
    assert one.reason == "replaced"
    assert timedelta(0) <= config.next_fire_at - one.fire_at < 40 * MINUTE


@virtually
@pytest.mark.parametrize(
    ("wanted", "is_enabled"), [(Schedule(every=2 * MINUTE), False), (Schedule(every=2 * MINUTE), True), (None, False)]
)
async def test_what_passed_while_it_was_disabled_is_on_record_as_soon_as_it_is_replaced(
    wanted: Schedule | None, is_enabled: bool
) -> None:
    leader = await a_leader()
    await leader.put(EVERY_MINUTE)
    await configs_of(leader).pause(*KEY)
    await pass_time(600)

    await configs_of(leader).put(a_config(EMAIL, schedule=wanted, is_enabled=is_enabled))
    await configs_of(leader).resume(*KEY)
    await leader.fire()

    assert await noted(leader) == [("paused", 540.0)]


@virtually
async def test_what_waits_for_the_end_of_its_runs_misses_nothing_when_it_is_replaced() -> None:
    leader = await a_leader()
    await leader.put(Schedule(after_end=MINUTE))
    await pass_time(600)

    await leader.put(EVERY_MINUTE)

    assert await noted(leader) == []


@virtually
@pytest.mark.parametrize(("seconds", "expected"), [(600, 1), (1, 0)])
async def test_a_schedule_whose_calendar_is_gone_can_be_replaced_all_the_same(seconds: int, expected: int) -> None:
    leader = await a_leader()
    await leader.truth.calendars.put(StoredCalendar(calendar=Calendar(name="gone")))
    await leader.put(Schedule(every=MINUTE, exclude=("gone",)))
    vars(leader.truth.calendars)["_state"].calendars.clear()  # as if its row could not be read
    await pass_time(seconds)

    await leader.put(EVERY_MINUTE)

    reasons = [reason for reason, _ in await noted(leader)]
    assert [reason.partition(":")[0] for reason in reasons] == ["error"] * expected


@virtually
@pytest.mark.parametrize("facts", [{"description": "changed"}, {"priority": 5}])
async def test_a_time_that_has_fired_does_not_fire_again_when_its_occurrence_is_gone(facts: dict[str, Any]) -> None:
    leader = await a_leader()
    once = Schedule(at=(leader.node.time.now() + MINUTE,), missed_grace=3 * DAY, overlap=Overlap.ALLOW)
    await leader.put(once)
    await pass_time(61)
    await leader.fire()
    await pass_time(2 * DAY.total_seconds())
    await leader.truth.schedules.purge(fired_before=leader.node.time.now() - DAY, limit=100)

    await leader.put(once, **facts)
    await leader.put(Schedule(at=(*once.at, leader.node.time.now() + HOUR), missed_grace=3 * DAY), **facts)
    await leader.fire()

    assert await noted(leader) == []


@virtually
async def test_what_is_overdue_is_on_record_though_the_config_changed_while_it_was_replaced() -> None:
    leader = await a_leader()
    await leader.put(EVERY_MINUTE)
    await pass_time(600)
    schedules, fire = leader.node.store.schedules, leader.node.store.schedules.fire

    async def change_and_fire(firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        patch.setattr(schedules, "fire", fire)
        await leader.truth.configs.put(a_config(EMAIL, schedule=EVERY_MINUTE, description="newer"))
        return await fire(firings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedules, "fire", change_and_fire)
        stored = await configs_of(leader).put(a_config(EMAIL, schedule=Schedule(every=2 * MINUTE)))

    assert stored.revision == 3
    assert await noted(leader) == [("replaced", 540.0)]


@virtually
async def test_what_is_overdue_is_on_record_though_a_leader_fires_while_it_is_replaced() -> None:
    leader = await a_leader()
    await leader.put(EVERY_MINUTE)
    await pass_time(600)
    schedules, fire = leader.node.store.schedules, leader.node.store.schedules.fire

    async def fire_before(firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        """As a leader does that looked nine minutes ago, and was slow."""
        patch.setattr(schedules, "fire", fire)
        config = await configs_of(leader).get(*KEY)
        decision = decide(config, due_of(config), last=NEVER_RAN)
        await fire([firing_of(config, decision, task_ids=[TaskId(7)], now=due_of(config))])
        return await fire(firings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedules, "fire", fire_before)
        await configs_of(leader).put(a_config(EMAIL, schedule=Schedule(every=2 * MINUTE)))

    assert await noted(leader) == [("fired", 0.0), ("replaced", 480.0)]
