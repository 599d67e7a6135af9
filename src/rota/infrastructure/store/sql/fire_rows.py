"""What a firing writes: the config's next fire time, the occurrences, the tasks with their live rows and first entries.

Of a `Run` the server is sent two rows, that of the config and that of the task. The others say nothing that the task's
row does not, so that the server makes them of it: sending, reading and comparing the same values four times took it
twice as long.
"""

from collections.abc import Sequence
from typing import Any

from rota.domain.firing import Firing, Run, given_to
from rota.domain.retry import STANDARD_RETRY
from rota.domain.schedule import Occurrence
from rota.domain.task import PENDING
from rota.infrastructure.database import schema
from rota.infrastructure.database.batch import Batch, KeyedChange, RowCopy
from rota.infrastructure.database.codes import STATUS_CODES
from rota.infrastructure.instants import duration_us, to_us
from rota.infrastructure.store.sql.log_rows import FIRST_SEQ, STATE_CHANGE
from rota.infrastructure.store.sql.task_rows import SPEC_COLUMNS, retry_to_json, rules_to_json
from rota.infrastructure.store.sql.tasks import insert_tasks

_OCCURRENCE_COLUMNS = ("tenant_id", "type", "fire_us", "task_id", "reason", "since_us")
_KEY = ("tenant_id", "type", "next_fire_us", "revision")
_FIRED = KeyedChange(_KEY, ("next_fire_us", "last_run"), ("runs",))
_MOVED = KeyedChange(_KEY, ("next_fire_us",))
_COPIES = {
    schema.schedule_occurrence: RowCopy(
        schema.task, ("tenant_id", "type", "fire_us", "task_id"), ("tenant_id", "type", "scheduled_us", "id")
    ),
    schema.task_live: RowCopy(
        schema.task,
        ("id", "status", "priority", "due_us", "tenant_id"),
        ("id", STATUS_CODES[PENDING], "priority", "scheduled_us", "tenant_id"),
    ),
    schema.task_logs: RowCopy(
        schema.task,
        ("task_id", "seq", "kind", "to_status", "at_us", "tenant_id"),
        ("id", FIRST_SEQ, STATE_CHANGE, STATUS_CODES[PENDING], "created_us", "tenant_id"),
    ),
}


def write_firings(batch: Batch, firings: Sequence[Firing]) -> None:
    """Write them, each config in the order of its key, while it is where its firing began."""
    _move_on(batch, firings)
    runs = [one for one in firings if isinstance(one, Run)]
    if runs:
        batch.insert(schema.task, columns=SPEC_COLUMNS, rows=[_task_row(one) for one in runs])
        ids = [one.task_id for one in runs]
        for table, copy in _COPIES.items():
            batch.insert_copies(table, copy, ids=ids)
    others = [one for one in firings if not isinstance(one, Run)]
    rows = sorted(_occurrence_row(one) for firing in others for one in firing.occurrences)
    if rows:
        batch.insert(schema.schedule_occurrence, columns=_OCCURRENCE_COLUMNS, rows=rows)
    insert_tasks(batch, [task for firing in others for task in firing.tasks])


def _move_on(batch: Batch, firings: Sequence[Firing]) -> None:
    rows = sorted([_run_row(one) if isinstance(one, Run) else _config_row(one) for one in firings])
    fired = [row for row in rows if row[-1]]
    if fired:
        batch.update_keyed(schema.task_config, _FIRED, rows=fired)
    others = [row[: len(_KEY) + 1] for row in rows if not row[-1]]
    if others:
        batch.update_keyed(schema.task_config, _MOVED, rows=others)


def _config_row(firing: Firing) -> tuple[Any, ...]:
    fence = (firing.tenant_id, firing.task_type, to_us(firing.seen_at), firing.revision)
    return (*fence, to_us(firing.next_fire_at), firing.last_run or 0, len(firing.tasks))


def _run_row(run: Run) -> tuple[Any, ...]:
    """The same, without asking each of its properties."""
    config = run.config
    fence = (config.tenant_id, config.type, to_us(config.next_fire_at), config.revision)
    return (*fence, to_us(run.next_fire_at), run.task_id, 1)


def _task_row(run: Run) -> tuple[Any, ...]:
    """What `spec_row` makes of its task."""
    config, (payload, priority) = run.config, given_to(run.config)
    is_standard = config.retry is STANDARD_RETRY
    return (
        run.task_id,
        priority,
        to_us(run.now),
        to_us(run.target),
        duration_us(config.timeout),
        0,
        config.tenant_id,
        config.type,
        "",
        "" if is_standard else retry_to_json(config.retry),
        None if is_standard else rules_to_json(config.retry),
        None,
        payload,
    )


def _occurrence_row(one: Occurrence) -> tuple[Any, ...]:
    return one.tenant_id, one.task_type, to_us(one.fire_at), one.task_id or 0, one.reason, to_us(one.since)
