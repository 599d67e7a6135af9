"""The life of one task under everything that can happen to it, in any order, with a clock that jumps.

The model knows nothing of the transition table: it counts grants, failures and losses by itself.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rota.domain.attempt import Cancelled, Deferred, Failed, Outcome, Snoozed, Succeeded, TaskResult, TimedOut
from rota.domain.conclusion import conclude
from rota.domain.errors import IllegalTransitionError, NotDueError
from rota.domain.ids import WorkerId
from rota.domain.log import LogEntry, entry_for, first_entry, place
from rota.domain.retry import RetryPolicy
from rota.domain.task import (
    ALLOWED,
    BLOCKED,
    CANCELLED,
    FAILED,
    FINAL,
    PENDING,
    PROCESSING,
    RETRYING,
    SUCCESS,
    LogKind,
    TaskState,
    TaskStatus,
    Transition,
)
from tests.support.builders import HOUR, MINUTE, NOW, a_state, a_task, an_attempt, an_error
from tests.support.properties import LIFE

QUARANTINE_WINDOW = timedelta(hours=72)
retryable_failures = st.just(Failed(an_error())) | st.just(TimedOut())
outcomes = (
    st.builds(Succeeded, st.builds(TaskResult))
    | retryable_failures
    | st.just(Failed(an_error(retryable=False)))
    | st.just(Cancelled())
    | st.builds(Snoozed, st.timedeltas(-HOUR, HOUR))
)


class TaskLife(RuleBasedStateMachine):
    @initialize(blocked=st.booleans(), max_retries=st.integers(0, 3))
    def submit(self, blocked: bool, max_retries: int) -> None:
        self.policy = RetryPolicy(max_retries=max_retries)
        self.task = a_task(state=a_state(status=BLOCKED if blocked else PENDING), retry=self.policy)
        self.record: list[LogEntry] = [first_entry(self.task)]
        self.now = NOW
        self.fences: list[int] = []
        self.failures = 0
        self.losses = [NOW - 1000 * HOUR] * 2  # long ago: as good as none

    @property
    def state(self) -> TaskState:
        return self.task.state

    @rule(jump=st.timedeltas(-HOUR, 50 * HOUR))
    def let_time_pass(self, jump: timedelta) -> None:
        self.now += jump

    @rule()
    def grant(self) -> None:
        lawful = {PENDING, RETRYING}
        if self.state.status in lawful and self.now < self.state.due_at:
            with pytest.raises(NotDueError):
                self.state.granted(WorkerId(1), term=1, at=self.now, timeout=MINUTE)
        elif self.try_step(lambda: self.state.granted(WorkerId(1), term=1, at=self.now, timeout=MINUTE), lawful):
            self.fences.append(self.state.attempt)

    @precondition(lambda self: self.state.status is not PROCESSING)
    @rule(outcome=outcomes)
    def report_too_late(self, outcome: Outcome) -> None:
        lawful = {BLOCKED, PENDING, RETRYING} if isinstance(outcome, Cancelled) else set[TaskStatus]()
        self.try_step(lambda: self.conclusion(outcome), lawful)

    @precondition(lambda self: self.state.status is PROCESSING)
    @rule(outcome=outcomes)
    def report(self, outcome: Outcome) -> None:
        assert self.state.is_held_by(an_attempt(self.state))
        spent = self.state.retry_count
        self.take(self.conclusion(outcome))
        match outcome:
            case Failed(error) if not error.retryable:
                assert self.state.status is FAILED
            case Failed() | TimedOut():
                self.failures += 1
                assert (self.state.status is RETRYING) == (self.failures <= self.policy.max_retries)
            case Snoozed():
                assert (self.state.status, self.state.retry_count) == (PENDING, spent)
            case Succeeded():
                assert self.state.status is SUCCESS
            case Cancelled():
                assert self.state.status is CANCELLED
            case Deferred():
                assert self.state.status is FAILED

    @precondition(lambda self: self.state.status in {PENDING, RETRYING, PROCESSING})
    @rule()
    def lose_the_worker(self) -> None:
        if self.state.status.is_waiting:
            self.now = max(self.now, self.state.due_at)
            self.grant()
        spent = self.state.retry_count
        self.losses.append(self.now)
        self.take(self.state.lost(at=self.now))
        is_third_in_window = self.losses[-1] - self.losses[-3] <= QUARANTINE_WINDOW
        assert self.state.status is (FAILED if is_third_in_window else PENDING)
        assert self.state.retry_count == spent

    @rule()
    def drain_the_worker(self) -> None:
        self.try_step(lambda: self.state.released("drained", at=self.now, due_at=self.now), {PROCESSING})

    @rule()
    def cancel(self) -> None:
        self.try_step(lambda: self.state.cancelled("by me", at=self.now), {BLOCKED, PENDING, RETRYING, PROCESSING})

    @rule()
    def unblock(self) -> None:
        self.try_step(lambda: self.state.unblocked(at=self.now), {BLOCKED})

    @rule(priority=st.integers(0, 9))
    def change_priority(self, priority: int) -> None:
        self.try_step(lambda: self.state.reprioritised(priority, at=self.now), {BLOCKED, PENDING, RETRYING})

    def conclusion(self, outcome: Outcome) -> Transition:
        return conclude(self.state, outcome, policy=self.policy, at=self.now, chance=0.5)

    def try_step(self, act: Callable[[], Transition], lawful_from: set[TaskStatus]) -> bool:
        """Do what is lawful; see what is not refused."""
        if self.state.status in lawful_from:
            self.take(act())
            return True
        before = self.task
        try:
            act()
        except IllegalTransitionError:
            assert self.task == before
            return False
        raise AssertionError(f"{before.state.status} allowed an unlawful step")

    def take(self, step: Transition) -> None:
        assert step.before == self.state
        assert step.before.status not in FINAL
        is_amendment = step.kind is LogKind.INFO and step.after.status is step.before.status
        assert is_amendment or step.after.status in ALLOWED[step.before.status]
        self.task = self.task.after(step)
        self.record.append(entry_for(step))

    @invariant()
    def the_version_counts_every_step_without_a_gap(self) -> None:
        assert self.state.version == len(self.record)
        assert [entry.seq for entry in self.record] == [place(version) for version in range(1, len(self.record) + 1)]

    @invariant()
    def no_attempt_number_is_used_twice(self) -> None:
        assert self.fences == list(range(1, self.state.attempt + 1))

    @invariant()
    def only_failures_spend_retries_and_never_more_than_allowed(self) -> None:
        assert self.state.retry_count == min(self.failures, self.policy.max_retries)

    @invariant()
    def exactly_the_running_task_has_a_worker_that_may_speak(self) -> None:
        assert self.state.status in FINAL or (self.state.worker_id is not None) == (self.state.status is PROCESSING)
        if self.state.status in FINAL and self.state.worker_id is not None:
            assert not self.state.is_held_by(an_attempt(self.state)), "a result is let through after the end"

    @invariant()
    def exactly_an_ended_task_has_a_time_of_completion(self) -> None:
        assert (self.state.completed_at is not None) == (self.state.status in FINAL)

    @invariant()
    def the_result_is_there_exactly_after_success(self) -> None:
        assert (self.task.result is not None) == (self.state.status is SUCCESS)


TaskLife.TestCase.settings = LIFE
TestTaskLife = TaskLife.TestCase
