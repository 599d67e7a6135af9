"""What the rows of a batch share is worked out once.

The tasks of a batch differ in their ids and little else: they are created in one moment, granted to a few workers in
one moment, and end so. Grouped by all that their rows are made of, a group is one list of ids beside one row, which is
also what each database is told (`Groups`).
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rota.domain.task import Task, Transition
from rota.infrastructure.database.batch import Groups, Values


class AlikeSteps(NamedTuple):
    """Steps that write the same but for their ids."""

    step: Transition  # one of them
    ids: list[int]


class AlikeTasks(NamedTuple):
    """New tasks whose live rows and first log rows are the same but for their ids."""

    task: Task  # one of them
    ids: list[int]


def group_steps(steps: Sequence[Transition]) -> list[AlikeSteps]:
    """By all that their rows in `task`, `task_live` and `task_logs` are made of."""
    groups: dict[Values, AlikeSteps] = {}
    for step in steps:
        before, after = step.before, step.after
        key: tuple[Any, ...] = (  # flat, without a call: this runs for every step of every task
            before.version,
            before.status,
            before.priority,
            before.worker_id,
            before.moved_due_at,
            after.version,
            after.status,
            after.priority,
            after.attempt,
            after.retry_count,
            after.due_at,
            after.started_at,
            after.completed_at,
            after.worker_id,
            after.term,
            after.last_lost_at,
            after.prior_lost_at,
            after.moved_due_at,
            after.tenant_id,
            step.at,
            step.kind,
            step.message,
            step.error,
            step.is_recorded,
        )
        group = groups.get(key)
        if group is None:
            groups[key] = AlikeSteps(step, [after.id])
        else:
            group.ids.append(after.id)
    return list(groups.values())


def group_new(tasks: Sequence[Task]) -> list[AlikeTasks]:
    groups: dict[Values, AlikeTasks] = {}
    for task in tasks:
        state = task.state
        key = (state.version, state.status, state.priority, state.due_at, state.tenant_id, task.spec.created_at)
        group = groups.get(key)
        if group is None:
            groups[key] = AlikeTasks(task, [state.id])
        else:
            group.ids.append(state.id)
    return list(groups.values())


def merged(groups: Iterable[tuple[Values, Sequence[int]]]) -> Groups:
    """Groups that turn out to write the same into a table are one."""
    found: dict[Values, list[int]] = {}
    for values, ids in groups:
        found.setdefault(values, []).extend(ids)
    return found
