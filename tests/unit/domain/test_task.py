from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from rota.domain.attempt import Attempt, TaskError, TaskResult
from rota.domain.checks import MAX_DETAIL, MAX_MESSAGE
from rota.domain.errors import FencedError, IllegalTransitionError, InvalidError, NotDueError
from rota.domain.ids import WorkerId
from rota.domain.task import (
    ALLOWED,
    BLOCKED,
    CANCELLED,
    FAILED,
    FINAL,
    LIVE,
    PENDING,
    PROCESSING,
    RETRYING,
    SUCCESS,
    TIMEOUT,
    WAITING,
    LogKind,
    TaskState,
    TaskStatus,
    Transition,
    check_one_step_each,
)
from rota.testing.values import replace
from tests.support.builders import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_live_task,
    a_running_state,
    a_state,
    a_task,
    an_attempt,
    an_error,
)

THREE_DAYS = timedelta(hours=72)
VERBS: dict[str, tuple[Callable[[TaskState], Transition], set[TaskStatus]]] = {
    "granted": (lambda state: state.granted(WorkerId(1), term=1, at=NOW, timeout=MINUTE), {PENDING, RETRYING}),
    "succeeded": (lambda state: state.succeeded(TaskResult(), at=NOW), {PROCESSING}),
    "failed": (lambda state: state.failed(an_error(), at=NOW), {PROCESSING}),
    "timed_out": (lambda state: state.timed_out(an_error(), at=NOW), {PROCESSING}),
    "retried": (lambda state: state.retried(an_error(), at=NOW, due_at=NOW), {PROCESSING}),
    "released": (lambda state: state.released("drained", at=NOW, due_at=NOW), {PROCESSING}),
    "lost": (lambda state: state.lost(at=NOW), {PROCESSING}),
    "cancelled": (lambda state: state.cancelled("by me", at=NOW), {BLOCKED, PENDING, RETRYING, PROCESSING}),
    "unblocked": (lambda state: state.unblocked(at=NOW), {BLOCKED}),
    "reprioritised": (lambda state: state.amended(priority=9, at=NOW), {BLOCKED, PENDING, RETRYING}),
    "rescheduled": (lambda state: state.amended(due_at=NOW + HOUR, at=NOW), {BLOCKED, PENDING, RETRYING}),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("status", TaskStatus)
def test_each_verb_works_from_exactly_its_states(verb: str, status: TaskStatus) -> None:
    act, lawful_from = VERBS[verb]
    state = a_state(status=status)

    if status in lawful_from:
        assert act(state).after.version == state.version + 1
    else:
        with pytest.raises(IllegalTransitionError):
            act(state)


def test_the_table_allows_exactly_the_changes_that_some_verb_makes() -> None:
    made = {(status, act(a_state(status=status)).after.status) for act, lawful in VERBS.values() for status in lawful}

    changes = {(before, after) for before, after in made if before is not after}
    assert changes == {(before, after) for before, following in ALLOWED.items() for after in following}


def test_the_refusal_names_the_task_its_state_and_the_wish() -> None:
    with pytest.raises(IllegalTransitionError, match=r"^task 7 is SUCCESS and cannot become CANCELLED$"):
        a_state(7, status=SUCCESS).cancelled("too late", at=NOW)


def test_what_is_wanted_of_a_task_and_is_no_state_is_refused_in_a_sentence() -> None:
    with pytest.raises(IllegalTransitionError, match=r"^task 7 is SUCCESS and cannot be changed; only a task that w"):
        a_state(7, status=SUCCESS).amended(priority=5, at=NOW)
    with pytest.raises(IllegalTransitionError, match=r"^task 7 is SUCCESS and waits for no callback; only a worker"):
        a_state(7, status=SUCCESS).prolonged(NOW + HOUR, at=NOW)


def test_states_are_waiting_running_blocked_or_final() -> None:
    assert {status for status in TaskStatus if status.is_final} == FINAL == {SUCCESS, FAILED, TIMEOUT, CANCELLED}
    assert {status for status in TaskStatus if status.is_waiting} == WAITING == {PENDING, RETRYING}
    assert set(ALLOWED) == set(TaskStatus) == FINAL | LIVE


def test_a_grant_starts_the_next_attempt_with_its_own_deadline() -> None:
    step = a_state(attempt=2, started_at=NOW - HOUR).granted(WorkerId(9), term=5, at=NOW, timeout=MINUTE)

    running = step.after
    assert (running.attempt, running.worker_id, running.term) == (3, 9, 5)
    assert (running.started_at, running.due_at) == (NOW, NOW + MINUTE)


@pytest.mark.parametrize("status", [FAILED, TIMEOUT, CANCELLED, SUCCESS])
def test_an_ended_task_says_when_and_still_shows_its_worker(status: TaskStatus) -> None:
    act = {
        FAILED: VERBS["failed"],
        TIMEOUT: VERBS["timed_out"],
        CANCELLED: VERBS["cancelled"],
        SUCCESS: VERBS["succeeded"],
    }[status][0]

    ended = act(a_running_state(worker_id=9)).after

    assert (ended.status, ended.completed_at, ended.worker_id) == (status, NOW, 9)


@pytest.mark.parametrize("verb", ["retried", "released", "lost"])
def test_a_task_that_waits_again_has_no_worker(verb: str) -> None:
    assert VERBS[verb][0](a_running_state()).after.worker_id is None


@pytest.mark.parametrize(
    ("verb", "kind"),
    [
        ("succeeded", LogKind.STATE_CHANGE),
        ("failed", LogKind.ERROR),
        ("timed_out", LogKind.ERROR),
        ("retried", LogKind.RETRY),
        ("released", LogKind.STATE_CHANGE),
        ("lost", LogKind.STATE_CHANGE),
        ("cancelled", LogKind.STATE_CHANGE),
    ],
)
def test_the_log_tells_errors_and_retries_from_plain_changes(verb: str, kind: LogKind) -> None:
    assert VERBS[verb][0](a_running_state()).kind is kind


def test_a_change_of_priority_is_noted_and_leaves_the_task_where_it_is() -> None:
    step = a_state(priority=0).amended(priority=5, at=NOW)

    assert (step.after.priority, step.after.status) == (5, PENDING)
    assert (step.kind, step.message) == (LogKind.INFO, "priority 0 → 5")


@pytest.mark.parametrize("priority", [-1, 10])
def test_a_priority_that_has_no_queue_is_refused(priority: int) -> None:
    with pytest.raises(InvalidError, match=r"^priority: "):
        a_state().amended(priority=priority, at=NOW)


def test_a_new_due_time_is_kept_in_utc() -> None:
    beijing_noon = datetime(2026, 6, 1, 12, tzinfo=timezone(timedelta(hours=8)))

    assert a_state().amended(due_at=beijing_noon, at=NOW).message == "due 2026-06-01T04:00:00+00:00"


def test_priority_and_time_are_changed_in_one_step() -> None:
    step = a_state(priority=0).amended(priority=5, due_at=NOW + HOUR, at=NOW)

    assert (step.after.priority, step.after.due_at, step.after.version) == (5, NOW + HOUR, 2)
    assert step.message == f"priority 0 → 5, due {(NOW + HOUR).isoformat()}"


@pytest.mark.parametrize(("due_at", "expected"), [(NOW - HOUR, NOW), (NOW + HOUR, NOW + HOUR)])
def test_a_task_says_when_it_was_to_start_since_it_was_moved(due_at: datetime, expected: datetime) -> None:
    task = a_task()
    moved = task.after(task.state.amended(due_at=due_at, at=NOW))
    running = moved.after(moved.state.granted(WorkerId(7), term=1, at=NOW + HOUR, timeout=HOUR))
    waiting = running.after(running.state.released("drained", at=NOW + HOUR, due_at=NOW + HOUR))
    again = waiting.after(waiting.state.amended(due_at=NOW + 5 * HOUR, at=NOW + HOUR))

    assert [one.scheduled_at for one in (moved, running, waiting)] == [expected] * 3
    assert again.scheduled_at == expected, "where an attempt was made, only the next one was moved"


def test_a_change_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"^priority: or scheduled_at is needed"):
        a_state().amended(at=NOW)


def test_a_due_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"^scheduled_at: "):
        a_state().amended(due_at=NOW.replace(tzinfo=None), at=NOW)


@pytest.mark.parametrize(("due_at", "expected"), [(NOW - HOUR, NOW), (NOW + HOUR, NOW + HOUR)])
def test_an_unblocked_task_is_due_now_or_when_it_was_scheduled(due_at: datetime, expected: datetime) -> None:
    assert a_state(status=BLOCKED, due_at=due_at).unblocked(at=NOW).after.due_at == expected


def test_the_current_attempt_may_speak_for_its_task() -> None:
    state = a_running_state()

    assert state.is_held_by(an_attempt(state))


def test_an_older_attempt_may_not() -> None:
    state = a_running_state(attempt=4)

    assert not state.is_held_by(Attempt(state.id, 4, WorkerId(1)))


def test_another_incarnation_may_not() -> None:
    state = a_running_state(worker_id=1)

    assert not state.is_held_by(Attempt(state.id, state.attempt, WorkerId(2)))


def test_nobody_speaks_for_a_task_that_has_ended() -> None:
    running = a_running_state()
    ended = running.cancelled("by me", at=NOW).after

    assert not ended.is_held_by(an_attempt(running))


def lost_at(*moments: datetime) -> Transition:
    """Grant the same task again and again, and lose its worker at each of the moments."""
    state = a_state()
    for moment in moments[:-1]:
        state = state.granted(WorkerId(1), term=1, at=moment, timeout=MINUTE).after.lost(at=moment).after
    return state.granted(WorkerId(1), term=1, at=moments[-1], timeout=MINUTE).after.lost(at=moments[-1])


def test_a_lost_worker_puts_its_task_back_at_once_and_spends_no_retry() -> None:
    step = lost_at(NOW)

    assert (step.after.status, step.after.due_at, step.after.retry_count) == (PENDING, NOW, 0)
    assert step.message == "worker_lost"


def test_the_third_loss_within_72_hours_is_the_end() -> None:
    step = lost_at(NOW, NOW + HOUR, NOW + THREE_DAYS)

    assert step.after.status is FAILED
    assert step.error is not None
    assert (step.error.code, step.error.retryable) == ("poison", False)
    assert step.error.message == "3 workers were lost while running it within 3 days"


def test_two_losses_are_forgiven() -> None:
    assert lost_at(NOW, NOW).after.status is PENDING


def test_three_losses_spread_over_more_than_72_hours_are_forgiven() -> None:
    assert lost_at(NOW, NOW + HOUR, NOW + THREE_DAYS + SECOND).after.status is PENDING


def test_after_a_forgiven_third_loss_the_two_newest_still_count() -> None:
    third = NOW + THREE_DAYS + SECOND

    assert lost_at(NOW, NOW + HOUR, third, third + MINUTE).after.status is FAILED


def test_the_last_error_stays_visible_while_a_task_is_tried_again() -> None:
    task = a_task(state=a_running_state())
    error = an_error()

    task = task.after(task.state.retried(error, at=NOW, due_at=NOW))
    task = task.after(task.state.granted(WorkerId(1), term=1, at=NOW, timeout=MINUTE))

    assert task.error == error


def test_a_success_leaves_its_result_and_no_error() -> None:
    state = a_running_state()
    task = a_task(state=state)
    task = task.after(state.retried(an_error(), at=NOW, due_at=NOW))
    task = task.after(task.state.granted(WorkerId(1), term=1, at=NOW, timeout=MINUTE))

    task = task.after(task.state.succeeded(TaskResult(data="7"), at=NOW))

    assert (task.result, task.error) == (TaskResult(data="7"), None)


def test_a_step_from_an_older_state_is_not_applied() -> None:
    task = a_task()
    stale = task.state.cancelled("by me", at=NOW)
    task = task.after(task.state.amended(priority=5, at=NOW))

    with pytest.raises(FencedError, match="version of task 1: 1 is stale, 2 is current"):
        task.after(stale)


def test_a_live_task_goes_by_the_id_of_its_state() -> None:
    assert a_live_task(7).id == 7


def test_a_task_never_starts_before_it_is_due() -> None:
    waiting = a_state(due_at=NOW + SECOND)
    with pytest.raises(NotDueError):
        waiting.granted(WorkerId(1), term=1, at=NOW, timeout=MINUTE)
    assert waiting.granted(WorkerId(1), term=1, at=NOW + SECOND, timeout=MINUTE).after.status is PROCESSING


def test_a_reason_that_no_store_can_hold_is_made_fit_so_that_its_batch_gets_through() -> None:
    running = a_running_state()

    assert running.released("nul \x00", at=NOW, due_at=NOW).message == "nul �"
    cancelled = running.cancelled("half a pair \ud800", at=NOW)

    assert cancelled.message == "half a pair �"
    assert cancelled.error == TaskError("cancelled", "half a pair �", retryable=False)
    assert len(running.cancelled("x" * 10**6, at=NOW).message) == MAX_MESSAGE


def test_a_result_or_an_error_that_no_store_can_hold_is_made_fit() -> None:
    running = a_running_state()
    broken = TaskError("os\x00", "bad \ud800 name", detail="\x00" + "d" * MAX_DETAIL)

    for step in (running.failed(broken, at=NOW), running.timed_out(broken, at=NOW)):
        assert step.error is not None
        assert (step.error.code, step.error.message, step.message) == ("os�", "bad � name", "bad � name")
        assert (len(step.error.detail), step.error.detail[0]) == (MAX_DETAIL, "�")
    assert running.succeeded(TaskResult(7, "\x00", "{}"), at=NOW).result == TaskResult(7, "�", "{}")


def test_a_batch_holds_one_step_of_a_task() -> None:
    step = a_state(1).cancelled("enough", at=NOW)
    check_one_step_each([step, a_state(2).cancelled("enough", at=NOW)])
    with pytest.raises(InvalidError, match="steps"):
        check_one_step_each([step, step])


def test_a_leader_that_was_followed_by_another_grants_nothing_that_its_successor_granted() -> None:
    waiting = replace(a_state(), term=5)
    with pytest.raises(FencedError, match="term"):
        waiting.granted(WorkerId(1), term=4, at=NOW, timeout=MINUTE)
    assert waiting.granted(WorkerId(1), term=5, at=NOW, timeout=MINUTE).after.term == 5
