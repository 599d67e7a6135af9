"""What is decided about a config that is due."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.domain.calendar import Calendar
from rota.domain.decisions import Decisions
from rota.domain.errors import InvalidError
from rota.domain.firing import (
    SHORTEST_LOOK,
    Decision,
    FullFiring,
    LastRun,
    Run,
    already_in,
    can_be_decided_ahead,
    check_one_firing_each,
    check_schedule,
    count_failures,
    decide,
    due_of,
    firing_of,
    first_fire_at,
    schedule_of,
    skip_passed,
)
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId
from rota.domain.realigning import CalendarChange, Realigned, aimed_anew, realign
from rota.domain.schedule import Occurrence, OnExcluded, OnMissed, Overlap, Schedule
from rota.domain.task import CANCELLED, FAILED, PENDING, PROCESSING, RETRYING, SUCCESS, TIMEOUT, TaskStatus
from rota.domain.task_config import TaskConfig
from rota.domain.timetable import SkipReason, Timetable
from rota.testing.values import replace
from tests.support.builders import EMAIL, HOUR, MINUTE, NOW, a_config

NOON = NOW.replace(hour=12, minute=0, second=0, microsecond=0)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
RUNS = LastRun(is_live=True, has_begun=True)
WAITS = LastRun(is_live=True)
NONE = LastRun()


def scheduled(seen_at: datetime | None = NOON, *, runs: int = 0, **schedule: Any) -> TaskConfig:
    if not {"cron", "every", "after_end", "at"} & schedule.keys():
        schedule["cron"] = "* * * * *"
    return a_config(EMAIL, schedule=Schedule(**schedule), next_fire_at=seen_at, runs=runs)


def reasons(decision: Decision) -> list[str | None]:
    return [plan.reason for plan in decision.plans]


def test_a_target_in_time_fires_and_the_next_is_a_minute_later() -> None:
    decision = decide(scheduled(), NOON + SECOND, last=NONE)
    assert [plan.target for plan in decision.plans] == [NOON]
    assert (reasons(decision), decision.next_fire_at) == ([None], NOON + MINUTE)


def test_what_is_due_with_jitter_fires_for_the_target_before_it() -> None:
    config = scheduled(jitter=timedelta(seconds=50))
    table = Timetable(config.schedule or Schedule(cron="* * * * *"), seed=EMAIL)
    config = replace(config, next_fire_at=table.due_at(NOON))
    decision = decide(config, table.due_at(NOON), last=NONE)
    assert [plan.target for plan in decision.plans] == [NOON]
    assert decision.next_fire_at == table.due_at(NOON + MINUTE)


@pytest.mark.parametrize(
    ("overlap", "last", "expected"),
    [
        (Overlap.SKIP, NONE, [None, "overlap", "overlap"]),
        (Overlap.SKIP, RUNS, ["overlap"] * 3),
        (Overlap.ALLOW, RUNS, [None] * 3),
        (Overlap.QUEUE_ALL, WAITS, [None] * 3),
        (Overlap.QUEUE_ONE, NONE, [None, None, "overlap"]),
        (Overlap.QUEUE_ONE, RUNS, [None, "overlap", "overlap"]),
        (Overlap.QUEUE_ONE, WAITS, ["overlap"] * 3),
        (Overlap.CANCEL_RUNNING, RUNS, ["overlap", "overlap", None]),
        (Overlap.KILL_RUNNING, RUNS, ["overlap", "overlap", None]),
    ],
)
def test_what_overlaps_is_skipped_or_fires_as_the_schedule_says(
    overlap: Overlap, last: LastRun, expected: list[str | None]
) -> None:
    config = scheduled(cron="*/10 * * * * *", overlap=overlap)
    decision = decide(config, NOON + 20 * SECOND, last=last)
    assert reasons(decision) == expected
    assert decision.ends_last_run is (overlap in (Overlap.CANCEL_RUNNING, Overlap.KILL_RUNNING))
    assert decision.next_fire_at == NOON + 30 * SECOND


def test_nothing_is_cancelled_for_a_target_that_is_skipped() -> None:
    config = scheduled(overlap=Overlap.CANCEL_RUNNING, is_paused=True)
    decision = decide(config, NOON, last=RUNS)
    assert (reasons(decision), decision.ends_last_run) == (["paused"], False)


@pytest.mark.parametrize(
    ("on_missed", "expected"),
    [
        (OnMissed.SKIP, {"missed_limit": 1, "missed": 4, None: 1}),
        (OnMissed.RUN_ONCE, {"missed_limit": 1, "coalesced": 4, None: 1}),
        (OnMissed.RUN_ALL, {"missed_limit": 1, None: 5}),
    ],
)
def test_a_long_outage_is_made_up_for_within_bounds(on_missed: OnMissed, expected: dict[str | None, int]) -> None:
    config = scheduled(on_missed=on_missed, overlap=Overlap.ALLOW, missed_limit=5)
    decision = decide(config, NOON + 24 * HOUR + MINUTE / 2, last=NONE)
    counted = {reason: reasons(decision).count(reason) for reason in reasons(decision)}
    assert counted == expected
    first = decision.plans[0]
    assert (first.reason, first.since) == (SkipReason.MISSED_LIMIT, NOON)
    assert decision.next_fire_at == NOON + 24 * HOUR + MINUTE


def test_a_schedule_is_over_after_its_last_run_and_after_its_end() -> None:
    assert decide(scheduled(runs=2, max_runs=3), NOON, last=NONE).next_fire_at is None
    assert decide(scheduled(runs=3, max_runs=3), NOON, last=NONE) == Decision(next_fire_at=None)
    assert decide(scheduled(end_at=NOON + SECOND), NOON, last=NONE).next_fire_at is None
    overlapped = decide(scheduled(runs=2, max_runs=3), NOON, last=RUNS)
    assert (reasons(overlapped), overlapped.next_fire_at) == (["overlap"], NOON + MINUTE)


def test_a_fire_time_that_no_target_belongs_to_is_passed() -> None:
    config = scheduled(NOON, cron="0 0 * * *", start_at=NOON + HOUR)
    assert decide(config, NOON, last=NONE) == Decision(next_fire_at=NOON + 12 * HOUR)


def test_a_schedule_after_the_end_of_runs_waits_for_it_and_is_never_early() -> None:
    config = scheduled(after_end=10 * MINUTE)
    assert decide(config, NOON, last=RUNS) == Decision(next_fire_at=NOON + 10 * MINUTE)
    ended = LastRun(ended_at=NOON - 4 * MINUTE)
    assert decide(config, NOON, last=ended) == Decision(next_fire_at=NOON + 6 * MINUTE)
    for over in (LastRun(ended_at=NOON - 10 * MINUTE), NONE):
        decision = decide(config, NOON + SECOND, last=over)
        assert [(plan.target, plan.reason) for plan in decision.plans] == [(NOON, None)]
        assert decision.next_fire_at == NOON + SECOND + 10 * MINUTE


def test_a_run_right_after_the_end_is_looked_for_once_a_second() -> None:
    assert decide(scheduled(after_end=timedelta(0)), NOON, last=RUNS).next_fire_at == NOON + SHORTEST_LOOK


def test_a_schedule_after_the_end_of_runs_ends_pauses_and_counts() -> None:
    after: dict[str, Any] = {"after_end": MINUTE}
    assert decide(scheduled(end_at=NOON, **after), NOON, last=NONE) == Decision(next_fire_at=None)
    assert decide(scheduled(end_at=NOON, **after), NOON, last=LastRun(ended_at=NOON)).next_fire_at is None
    assert decide(scheduled(runs=1, max_runs=1, **after), NOON, last=NONE) == Decision(next_fire_at=None)
    assert decide(scheduled(max_runs=1, **after), NOON, last=NONE).next_fire_at is None
    paused = decide(scheduled(is_paused=True, **after), NOON, last=NONE)
    assert (reasons(paused), paused.next_fire_at) == (["paused"], NOON + MINUTE)


def test_the_first_fire_time_is_counted_from_when_it_is_put() -> None:
    assert first_fire_at(a_config(EMAIL), NOON) is None
    assert first_fire_at(scheduled(None), NOON + SECOND) == NOON + MINUTE
    assert first_fire_at(scheduled(None, end_at=NOON), NOON) is None
    late = scheduled(None, at=(NOON,))
    assert first_fire_at(late, NOON + SECOND) == NOON, "it was on its way"
    assert first_fire_at(late, NOON + HOUR) is None


@pytest.mark.parametrize("cron", ["0 10 1 * *", "0 10 * * *"])
def test_a_target_that_a_changed_zone_puts_later_does_not_bring_back_the_one_before_it(cron: str) -> None:
    stored = datetime(2026, 2, 1, 9, tzinfo=UTC)  # by the rules of before

    decision = decide(scheduled(stored, cron=cron), stored + SECOND, last=NONE)

    assert (decision.plans, decision.next_fire_at) == ((), stored + HOUR)


@pytest.mark.parametrize("jitter", [timedelta(0), 4 * HOUR])  # with which it is due later than the time that is stored
@pytest.mark.parametrize("cron", ["0 8 1 * *", "0 8 * * *"])
def test_a_target_that_a_changed_zone_puts_earlier_fires_all_the_same(cron: str, jitter: timedelta) -> None:
    stored = datetime(2026, 2, 1, 9, tzinfo=UTC)
    config = scheduled(stored, cron=cron, jitter=jitter)

    decision = decide(config, stored + SECOND, last=NONE)

    if jitter:
        due_at = Timetable(schedule_of(config), seed=EMAIL).due_at(stored - HOUR)
        assert (decision.plans, decision.next_fire_at) == ((), due_at)
        decision = decide(replace(config, next_fire_at=due_at), due_at, last=NONE)
    assert decision.targets == (stored - HOUR,)


def test_a_pause_is_one_range_of_skipped_targets() -> None:
    firing = skip_passed(scheduled(), NOON + 24 * HOUR)
    assert firing is not None
    [skipped] = firing.occurrences
    assert (skipped.reason, skipped.since, skipped.fire_at) == ("paused", NOON, NOON + 24 * HOUR)
    assert (firing.seen_at, firing.next_fire_at) == (NOON, NOON + 24 * HOUR + MINUTE)
    assert skip_passed(scheduled(), NOON - SECOND) is None
    assert skip_passed(scheduled(None), NOON) is None
    assert skip_passed(a_config(EMAIL, next_fire_at=NOON), NOON) is None


def test_a_firing_names_the_tasks_of_its_targets_in_order() -> None:
    config = scheduled(cron="*/10 * * * * *", overlap=Overlap.QUEUE_ONE)
    decision = decide(config, NOON + 20 * SECOND, last=NONE)
    firing = firing_of(config, decision, task_ids=[TaskId(1), TaskId(2)], now=NOON + 20 * SECOND)
    assert isinstance(firing, FullFiring)
    assert [one.task_id for one in firing.occurrences] == [1, 2, None]
    assert firing.last_run == 2
    assert replace(firing, occurrences=(), tasks=()).last_run is None
    left = firing.without([NOON])
    assert ([one.task_id for one in left.occurrences], [task.id for task in left.tasks]) == ([2, None], [2])
    with pytest.raises(InvalidError, match="tasks"):
        replace(firing, tasks=())
    with pytest.raises(InvalidError, match="next_fire_at"):
        replace(firing, next_fire_at=NOON)


def test_a_batch_has_one_firing_of_a_config() -> None:
    one = FullFiring(tenant_id=DEFAULT_TENANT, task_type=EMAIL, revision=1, seen_at=NOON, next_fire_at=None)
    check_one_firing_each([one, replace(one, task_type="other")])
    with pytest.raises(InvalidError, match="more than one"):
        check_one_firing_each([one, one])


def test_what_a_call_wrote_before_is_recognised() -> None:
    skipped = Occurrence(task_type=EMAIL, fire_at=NOON, reason="late")
    firing = FullFiring(
        tenant_id=DEFAULT_TENANT, task_type=EMAIL, revision=1, seen_at=NOON, next_fire_at=None, occurrences=(skipped,)
    )
    assert already_in(firing, {NOON: skipped}) == [skipped]
    assert already_in(firing, {NOON: replace(skipped, task_id=TaskId(1), reason="")}) == []
    assert already_in(firing, {}) == []


@pytest.mark.parametrize(
    ("schedule", "config", "field"),
    [
        ({"overlap": Overlap.QUEUE_ONE}, {}, "schedule.overlap"),
        ({"overlap": Overlap.QUEUE_ALL}, {"max_concurrent": 2}, "schedule.overlap"),
        ({"payload": "[1]"}, {}, "schedule.payload"),
        ({"only": ("holidays",)}, {}, "schedule.only"),
    ],
)
def test_what_cannot_be_fired_as_it_is_meant_is_refused(
    schedule: dict[str, Any], config: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        check_schedule(replace(scheduled(**schedule), **config))
    assert caught.value.field == field


def test_what_can_be_fired_is_accepted() -> None:
    check_schedule(a_config(EMAIL))
    check_schedule(replace(scheduled(overlap=Overlap.QUEUE_ALL, payload='{"a": 1}'), max_concurrent=1))


def test_a_spread_schedule_is_refused_for_the_type_for_which_it_never_fires() -> None:
    spread = scheduled(cron="0 0 30 H(1-2) *")
    check_schedule(replace(spread, type="email"))

    with pytest.raises(InvalidError, match="never fires"):
        check_schedule(replace(spread, type="e"))


def test_the_calendar_that_skips_a_target_is_on_record() -> None:
    closed = Calendar(name="closed", dates=frozenset({NOON.date()}))
    config = scheduled(exclude=("closed",))
    decision = decide(config, NOON + SECOND, last=NONE, calendars={"closed": closed})
    [skipped] = firing_of(config, decision, task_ids=(), now=NOON).occurrences
    assert skipped.reason == "calendar: in closed"


def test_a_run_after_the_end_of_the_one_before_keeps_to_calendars() -> None:
    closed = Calendar(name="closed", dates=frozenset({NOON.date()}))
    config = scheduled(after_end=HOUR, exclude=("closed",))
    decision = decide(config, NOON, last=NONE, calendars={"closed": closed})
    assert reasons(decision) == [SkipReason.CALENDAR]


def test_a_schedule_is_aimed_anew_unless_it_is_due_or_waits_for_its_jitter() -> None:
    moving = scheduled(NOON + DAY, cron="0 12 * * *", exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER)
    closed = {"closed": Calendar(name="closed", dates=frozenset({(NOON + DAY).date()}))}
    assert aimed_anew(moving, NOON, calendars=closed) == NOON + 2 * DAY
    assert aimed_anew(moving, NOON + DAY, calendars=closed) == NOON + DAY
    jittered = replace(moving, schedule=replace(moving.schedule or Schedule(every=DAY), jitter=2 * DAY))
    assert aimed_anew(jittered, NOON, calendars=closed) == NOON + DAY
    assert aimed_anew(a_config(EMAIL), NOON, calendars={}) is None


def test_what_is_to_come_is_where_the_calendar_puts_it_now_and_nothing_stays_nothing() -> None:
    moving = scheduled(NOON + DAY, cron="0 12 * * *", exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER)
    opened, closed = (Calendar(name="closed", dates=dates) for dates in (frozenset(), frozenset({(NOON + DAY).date()})))
    change = CalendarChange({"closed": opened}, {"closed": closed})
    assert realign(moving, NOON, change=change, ran={NOON}) == Realigned(NOON + 2 * DAY)
    assert realign(a_config(EMAIL), NOON, change=change, ran=()) == Realigned(None)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], 0),
        ([FAILED, TIMEOUT, SUCCESS, FAILED], 2),
        ([PROCESSING, FAILED, CANCELLED, RETRYING, FAILED, PENDING], 2),
        ([SUCCESS, FAILED], 0),
    ],
)
def test_failures_in_a_row_are_counted_from_the_newest(statuses: list[TaskStatus], expected: int) -> None:
    assert count_failures(statuses) == expected


def test_configs_whose_schedules_say_the_same_share_a_decision() -> None:
    decisions = Decisions(NOON)
    plain = [a_config(name, schedule=Schedule(cron="* * * * *"), next_fire_at=NOON) for name in ("a", "b")]
    first, second = (decisions.about(config, LastRun()) for config in plain)
    assert first is second
    assert decisions.about(plain[0], LastRun(is_live=True)) is not first
    assert decisions.about(replace(plain[0], tenant_id=TenantId("other")), LastRun()) is not first


def test_a_shared_decision_keeps_to_the_calendars_of_its_tenant() -> None:
    other = TenantId("other")
    closed, never = Calendar(name="closed", dates=frozenset({NOON.date()})), Calendar(name="closed")
    decisions = Decisions(NOON, {DEFAULT_TENANT: {"closed": closed}, other: {"closed": never}})
    config = a_config("a", schedule=Schedule(cron="* * * * *", exclude=("closed",)), next_fire_at=NOON)
    ours = decisions.about(config, LastRun())
    assert reasons(ours) == [SkipReason.CALENDAR]
    assert decisions.about(replace(config, type="b"), LastRun()) is ours
    assert reasons(decisions.about(replace(config, tenant_id=other), LastRun())) == [None]
    with pytest.raises(InvalidError, match="closed"):
        decisions.about(replace(config, tenant_id=TenantId("third")), LastRun())


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(cron="H H * * *"),
        Schedule(cron="* * * * *", jitter=timedelta(seconds=30)),
        Schedule(cron="* * * * *", max_runs=2),
    ],
)
def test_what_depends_on_the_config_itself_is_decided_for_each(schedule: Schedule) -> None:
    decisions = Decisions(NOON)
    for name, runs in (("a", 0), ("b", 2)):
        config = a_config(name, schedule=schedule, next_fire_at=NOON, runs=runs)
        assert decisions.about(config, LastRun()) == decide(config, NOON, last=LastRun())


def test_a_list_of_instants_is_made_up_for_from_its_first_one() -> None:
    config = scheduled(at=(NOON, NOON + MINUTE), on_missed=OnMissed.RUN_ALL, overlap=Overlap.ALLOW)
    decision = decide(config, NOON + HOUR, last=NONE)
    assert [plan.target for plan in decision.plans] == [NOON, NOON + MINUTE]
    assert (reasons(decision), decision.next_fire_at) == ([None, None], None)


def test_a_run_says_what_a_full_firing_does() -> None:
    config = replace(scheduled(payload='{"a":1}', priority=7), revision=3, payload='{"b":2}', priority=1)
    decision = decide(config, NOON, last=NONE)
    run = firing_of(config, decision, task_ids=[TaskId(5)], now=NOON + SECOND)
    assert isinstance(run, Run)
    assert (run.tenant_id, run.task_type, run.revision, run.seen_at) == (DEFAULT_TENANT, EMAIL, 3, NOON)
    assert (run.weight, run.last_run, run.next_fire_at) == (1, 5, NOON + MINUTE)
    assert run.occurrences == (Occurrence(task_type=EMAIL, fire_at=NOON, task_id=TaskId(5)),)
    [task] = run.tasks
    assert (task.spec.payload, task.state.priority, task.spec.created_at) == ('{"a":1}', 7, NOON + SECOND)
    assert task.spec.scheduled_at == task.state.due_at == NOON
    assert run.without([NOON + MINUTE]) is run
    left = run.without([NOON])
    assert (left.occurrences, left.tasks, left.weight, left.last_run) == ((), (), 1, None)
    assert (left.seen_at, left.revision, left.next_fire_at) == (NOON, 3, NOON + MINUTE)


def test_a_payload_that_the_executor_cannot_take_makes_no_run() -> None:
    config = scheduled(payload="[1]")
    with pytest.raises(InvalidError, match="payload"):
        firing_of(config, decide(config, NOON, last=NONE), task_ids=[TaskId(1)], now=NOON)


@pytest.mark.parametrize(
    ("changes", "has_live_run", "expected"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"overlap": Overlap.ALLOW}, True, True),
        ({"missed_grace": SECOND}, False, False),
        ({"pause_after_failures": 3}, False, False),
        ({"exclude": ("closed",)}, False, False),
        ({"cron": None, "after_end": MINUTE}, False, False),
    ],
)
def test_only_what_cannot_change_is_decided_ahead(changes: dict[str, Any], has_live_run: bool, expected: bool) -> None:
    config = scheduled(**changes)
    assert can_be_decided_ahead(config, has_live_run=has_live_run, used_within=5 * SECOND) is expected
    assert not can_be_decided_ahead(a_config(EMAIL), has_live_run=False, used_within=SECOND)


def test_a_config_that_never_fires_is_not_due() -> None:
    with pytest.raises(InvalidError, match="has none"):
        due_of(a_config(EMAIL))
    with pytest.raises(InvalidError, match="has none"):
        decide(a_config(EMAIL, next_fire_at=NOON), NOON, last=NONE)


def test_decisions_may_be_made_for_the_moment_at_which_each_is_due() -> None:
    [plan] = Decisions(None).about(scheduled(), LastRun()).plans
    assert (plan.target, plan.fires) == (NOON, True)


def test_a_target_that_no_calendar_can_have_moved_does_not_come_back() -> None:
    closed = Calendar(name="closed", dates=frozenset({NOON.date()}))
    facts: dict[str, Any] = {"exclude": ("closed",), "on_excluded": OnExcluded.RUN_AFTER}
    for cron, since, fired in [("0 12 * * *", None, 1), ("0 12 * * *", NOON - HOUR, 0), ("0 12 1 1 *", None, 0)]:
        config = replace(scheduled(cron=cron, **facts), created_at=since)
        decision = decide(config, NOON, last=NONE, calendars={"closed": closed})
        assert len(decision.targets) == fired
        assert decision.next_fire_at is not None
        assert decision.next_fire_at > NOON


def test_a_decision_that_depends_on_when_the_config_was_created_is_its_own() -> None:
    closed = {"closed": Calendar(name="closed", dates=frozenset({NOON.date()}))}
    old = scheduled(cron="0 12 * * *", exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER)
    old = replace(old, created_at=NOON - 9 * DAY)
    new = replace(old, type="new", created_at=NOON - HOUR)
    decisions = Decisions(NOON, {DEFAULT_TENANT: closed})

    assert decisions.about(old, NONE).targets == (NOON - DAY,)
    assert decisions.about(new, NONE).targets == ()


@pytest.mark.parametrize(
    ("overlap", "last", "reason"),
    [
        (Overlap.SKIP, WAITS, "overlap: task 7 never began"),
        (Overlap.SKIP, replace(WAITS, was_tried=True), "overlap: task 7 waits to be tried again"),
        (Overlap.SKIP, RUNS, "overlap: task 7 goes on"),
        (Overlap.QUEUE_ONE, WAITS, "overlap: task 7 never began"),
    ],
)
def test_a_target_that_is_skipped_for_an_overlap_names_the_task_in_the_way(
    overlap: Overlap, last: LastRun, reason: str
) -> None:
    config = replace(scheduled(overlap=overlap), last_run=TaskId(7))
    firing = firing_of(config, decide(config, NOON, last=last), task_ids=[], now=NOON)
    assert [one.reason for one in firing.occurrences] == [reason]


@pytest.mark.parametrize(
    ("overlap", "reasons_told"),
    [
        (Overlap.SKIP, ["", "overlap: task 8 runs for both"]),
        (Overlap.CANCEL_RUNNING, ["overlap: task 8 runs for both", ""]),
    ],
)
def test_a_target_that_overlaps_one_of_the_same_moment_names_its_task(
    overlap: Overlap, reasons_told: list[str]
) -> None:
    config = replace(scheduled(cron="*/10 * * * * *", overlap=overlap), last_run=TaskId(7))
    decision = decide(config, NOON + 10 * SECOND, last=NONE)
    firing = firing_of(config, decision, task_ids=[TaskId(8)], now=NOON + 10 * SECOND)
    assert [one.reason for one in firing.occurrences] == reasons_told
