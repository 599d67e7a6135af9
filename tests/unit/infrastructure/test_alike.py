"""Rows that are worked out once for a group: what tells groups apart must hold all that a row is made of."""

from datetime import timedelta
from typing import Any

import pytest

from rota.domain.attempt import TaskError
from rota.domain.ids import TaskId, TenantId, WorkerId
from rota.domain.task import FAILED, PENDING, RETRYING, LogKind, Task, Transition
from rota.infrastructure.store.sql.alike import group_new, group_steps, merged
from rota.infrastructure.store.sql.log_rows import creation_row, transition_row
from rota.infrastructure.store.sql.task_rows import amended_row, final_row, new_live_row, step_row
from rota.testing.values import replace
from tests.support.builders import MINUTE, NOW, a_new_task

LATER = NOW + timedelta(seconds=5)
OF_STATE: dict[str, Any] = {
    "status": FAILED,
    "tenant_id": TenantId("another"),
    "due_at": LATER,
    "priority": 9,
    "version": 7,
    "attempt": 4,
    "retry_count": 2,
    "worker_id": WorkerId(77),
    "term": 12,
    "started_at": LATER,
    "completed_at": LATER,
    "last_lost_at": LATER,
    "prior_lost_at": LATER,
    "moved_due_at": LATER,
}
OF_STEP: dict[str, Any] = {
    "at": LATER,
    "kind": LogKind.RETRY,
    "message": "another",
    "error": TaskError("code", "message", "detail"),
    "is_recorded": False,
}


def a_grant(number: int) -> Transition:
    return a_new_task(number).task.state.granted(WorkerId(3), term=1, at=NOW, timeout=MINUTE)


def written(step: Transition) -> tuple[Any, ...]:
    """All that a step writes but for its id."""
    own = amended_row(step.after), amended_row(step.before) != amended_row(step.after)
    return step_row(step)[1:], final_row(step.after)[1:], transition_row(step)[1:], step.is_recorded, own


def test_steps_that_differ_in_their_ids_alone_are_one_group() -> None:
    steps = [a_grant(number) for number in (5, 3, 9)]
    ((step, ids),) = group_steps(steps)
    assert (step, ids) == (steps[0], [5, 3, 9])


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("field", OF_STATE)
def test_states_that_are_written_otherwise_are_apart(side: str, field: str) -> None:
    step = a_grant(1)
    other = replace(step, **{side: replace(getattr(step, side), id=TaskId(2), **{field: OF_STATE[field]})})
    assert len(group_steps([step, other])) == 2 or written(step) == written(other)


@pytest.mark.parametrize("field", OF_STEP)
def test_steps_that_are_written_otherwise_are_apart(field: str) -> None:
    step = a_grant(1)
    other = replace(step, **{field: OF_STEP[field]})
    assert len(group_steps([step, other])) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"status": RETRYING},
        {"priority": 7},
        {"due_at": LATER},
        {"tenant_id": TenantId("another")},
        {"version": 3},
        {"created_at": LATER},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_new_tasks_that_are_written_otherwise_are_apart(changes: dict[str, Any]) -> None:
    def rows(task: Task) -> tuple[Any, ...]:
        return new_live_row(task.state)[1:], creation_row(task)[1:]

    task = a_new_task(1).task
    part = "spec" if "created_at" in changes else "state"
    other = replace(task, **{part: replace(getattr(task, part), **changes)})
    assert rows(task) != rows(other)
    assert [ids for _, ids in group_new([task, other, task])] == [[1, 1], [1]]
    assert task.state.status is PENDING


def test_groups_that_write_the_same_into_a_table_are_one() -> None:
    assert merged([((1,), [1, 2]), ((2,), [3]), ((1,), [4])]) == {(1,): [1, 2, 4], (2,): [3]}
