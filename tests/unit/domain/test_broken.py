"""Configs of which no task can be made."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from rota.domain.broken import ERROR_PAUSE, firing_failed, skip_unreadable
from rota.domain.calendar import Calendar
from rota.domain.errors import InvalidError
from rota.domain.firing import NEVER_RAN, Firing, decide, first_fire_at
from rota.domain.ids import TenantId
from rota.domain.schedule import OnExcluded, Schedule
from rota.domain.task_config import TaskConfig, UnreadableConfig
from rota.testing.values import replace
from tests.support.builders import EMAIL, HOUR, MINUTE, SECOND, a_config
from tests.unit.domain.test_firing import NOON


def scheduled(seen_at: datetime = NOON, **schedule: Any) -> TaskConfig:
    return a_config(EMAIL, schedule=Schedule(**schedule), next_fire_at=seen_at)


def skipped(firing: Firing) -> tuple[datetime | None, datetime]:
    [one] = firing.occurrences
    return one.since, one.fire_at


def test_a_config_that_is_broken_is_skipped_on_record() -> None:
    firing = firing_failed(scheduled(cron="* * * * *"), NOON + SECOND, problem="x" * 1000)
    [one] = firing.occurrences
    assert one.reason.startswith("error: x")
    assert len(one.reason) == 200
    assert (one.since, one.fire_at, firing.next_fire_at) == (None, NOON, NOON + MINUTE)
    with pytest.raises(InvalidError, match="has none"):
        firing_failed(a_config(EMAIL), NOON, problem="x")


def test_all_that_was_due_of_a_broken_config_is_on_record_and_the_next_target_has_its_time() -> None:
    firing = firing_failed(scheduled(every=SECOND), NOON + 10.5 * SECOND, problem="x")
    assert skipped(firing) == (NOON, NOON + 10 * SECOND)
    assert firing.next_fire_at == NOON + 11 * SECOND


def test_the_target_is_noted_and_not_when_its_jitter_made_it_due() -> None:
    schedule = Schedule(every=HOUR, jitter=40 * MINUTE)
    due_at = first_fire_at(a_config(EMAIL, schedule=schedule), NOON - SECOND)
    assert due_at is not None
    config = a_config(EMAIL, schedule=schedule, next_fire_at=due_at)
    for late in (timedelta(0), NOON + HOUR - due_at):  # the next target has passed too, and waits for its jitter
        firing = firing_failed(config, due_at + late, problem="x")
        assert skipped(firing) == (None, NOON)
        assert firing.next_fire_at == decide(config, due_at, last=NEVER_RAN).next_fire_at


def test_a_target_that_a_calendar_moved_is_noted_where_it_was_to_be() -> None:
    schedule = Schedule(cron="0 9 * * 6", exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER)
    saturday = first_fire_at(a_config(EMAIL, schedule=replace(schedule, exclude=())), NOON)
    assert saturday is not None
    closed = {"closed": Calendar(name="closed", dates=frozenset({saturday.date()}))}
    sunday = first_fire_at(a_config(EMAIL, schedule=schedule), NOON, calendars=closed)
    assert sunday == saturday + 24 * HOUR
    firing = firing_failed(a_config(EMAIL, schedule=schedule, next_fire_at=sunday), sunday, problem="x")
    assert skipped(firing) == (None, sunday)


def test_what_waits_for_the_end_of_its_runs_is_looked_at_again() -> None:
    firing = firing_failed(scheduled(after_end=SECOND), NOON + SECOND, problem="x")
    assert skipped(firing) == (None, NOON)
    assert firing.next_fire_at == NOON + ERROR_PAUSE


def test_a_single_time_that_cannot_run_is_over() -> None:
    firing = firing_failed(scheduled(at=(NOON,)), NOON + SECOND, problem="x")
    assert (skipped(firing), firing.next_fire_at) == ((None, NOON), None)


def test_what_only_a_newer_release_can_read_is_skipped_on_record_and_looked_at_again() -> None:
    config = UnreadableConfig(
        tenant_id=TenantId("t"), type="moon", next_fire_at=NOON, problem="moon is not known", revision=3
    )
    firing = skip_unreadable(config, NOON + SECOND)
    rest = "; so is all that is due before 12:01Z"
    assert [one.reason for one in firing.occurrences] == [f"unreadable: moon is not known{rest}"]
    assert (firing.task_type, firing.seen_at, firing.next_fire_at) == ("moon", NOON, NOON + ERROR_PAUSE)
    [one] = skip_unreadable(replace(config, problem="x" * 1000), NOON).occurrences
    assert (len(one.reason), one.reason[-len(rest) :]) == (200, rest)
