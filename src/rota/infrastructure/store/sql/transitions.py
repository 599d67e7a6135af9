"""Writing transitions: swiftly when all is as expected, carefully when it is not.

The swift way trusts the batch and counts: a fenced statement over all rows either changes every one of them, or the
transaction is rolled back. Then the careful way locks the rows in the order of their ids, tells apart what still fits,
what had been written before and what has moved on, and writes the first. Stale steps are rare, so the swift way is the
rule; and two nodes that fight over the same tasks cannot deadlock for long: the careful way takes locks in order.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from rota.application.ports.store import Written
from rota.domain.audit import AuditEntry, entries_about
from rota.domain.task import LIVE, Transition
from rota.infrastructure.database import schema
from rota.infrastructure.database.batch import Batch, FenceMissedError
from rota.infrastructure.database.bulk import Bulk
from rota.infrastructure.database.codes import STATUS_CODES
from rota.infrastructure.database.database import RunAgainError
from rota.infrastructure.store.sql.alike import AlikeSteps, group_steps, merged
from rota.infrastructure.store.sql.audit import insert_audit
from rota.infrastructure.store.sql.log_rows import LOG_COLUMNS, transition_row
from rota.infrastructure.store.sql.task_rows import (
    AMENDED_COLUMNS,
    CHANGING_COLUMNS,
    FINAL_COLUMNS,
    RESULT_COLUMNS,
    amended_row,
    final_row,
    result_rows,
    step_row,
)

_LIVE_NOW = f"SELECT id,{','.join(CHANGING_COLUMNS)} FROM task_live WHERE id {{ids}} ORDER BY id "
_ENDED_NOW = f"SELECT id,{','.join(FINAL_COLUMNS)} FROM task WHERE id {{ids}} AND status<>0"


class StaleBatchError(RunAgainError):
    """At least one row was not as expected."""


@dataclass(frozen=True, slots=True)
class TransitionWriter:
    """Writes a batch of transitions within the caller's transaction."""

    bulk: Bulk
    shard: int  # of the counters

    def write_swiftly(
        self, connection: Connection, steps: Sequence[Transition], *, audit: Sequence[AuditEntry]
    ) -> Written:
        """Write all steps, or raise `StaleBatchError` for the caller to roll back."""
        self._write(connection, steps, is_last=not audit)
        insert_audit(self.bulk, connection, audit=audit)
        return Written(applied=frozenset([step.after.id for step in steps]))

    def write_carefully(
        self, connection: Connection, steps: Sequence[Transition], *, audit: Sequence[AuditEntry]
    ) -> Written:
        """Lock, look, and write the steps that still fit."""
        ids = sorted(step.task_id for step in steps)
        live = self._read_now(connection, _LIVE_NOW + self.bulk.row_lock, ids=ids)
        fitting = [step for step in steps if step.task_id in live and live[step.task_id][0] == step.before.version]
        self._write(connection, fitting)
        applied = frozenset(step.task_id for step in fitting)
        insert_audit(self.bulk, connection, audit=entries_about(audit, applied))
        ended = self._read_now(connection, _ENDED_NOW, ids=ids)
        repeated = frozenset(step.task_id for step in steps if _is_written(step, live=live, ended=ended)) - applied
        return Written(applied, repeated, stale=frozenset(ids) - applied - repeated)

    def _read_now(self, connection: Connection, query: str, *, ids: Sequence[int]) -> dict[int, tuple[int, ...]]:
        return {row[0]: tuple(row[1:]) for row in self.bulk.select_by_ids(connection, query, ids=ids)}

    def _write(self, connection: Connection, steps: Sequence[Transition], *, is_last: bool = False) -> None:
        if not steps:
            return
        try:
            with self.bulk.together(connection, is_last=is_last) as batch:
                self._write_together(batch, steps)
        except FenceMissedError as exc:
            raise StaleBatchError from exc

    def _write_together(self, batch: Batch, steps: Sequence[Transition]) -> None:
        alike = group_steps(steps)
        self._advance_live(batch, [group for group in alike if group.step.after.status in LIVE])
        self._end(batch, [group for group in alike if group.step.after.status not in LIVE])
        if results := result_rows(steps):
            batch.upsert(schema.task_result, columns=RESULT_COLUMNS, rows=results)
        if records := [(transition_row(step)[1:], ids) for step, ids in alike if step.is_recorded]:
            batch.insert_alike(schema.task_logs, columns=LOG_COLUMNS, groups=merged(records))

    def _advance_live(self, batch: Batch, alike: Sequence[AlikeSteps]) -> None:
        if not alike:
            return
        changes = merged([(step_row(step)[1:], ids) for step, ids in alike])
        batch.update_fenced(schema.task_live, columns=CHANGING_COLUMNS, groups=changes)
        amended = [
            (amended_row(step.after), ids)
            for step, ids in alike
            if step.after.priority != step.before.priority or step.after.moved_due_at != step.before.moved_due_at
        ]
        if amended:
            batch.update(schema.task, columns=AMENDED_COLUMNS, groups=merged(amended))

    def _end(self, batch: Batch, alike: Sequence[AlikeSteps]) -> None:
        if not alike:
            return
        batch.delete_fenced(schema.task_live, groups=merged([((step.before.version,), ids) for step, ids in alike]))
        finals = merged([(final_row(step.after)[1:], ids) for step, ids in alike])
        batch.update(schema.task, columns=FINAL_COLUMNS, groups=finals)
        ends: Counter[tuple[str, int]] = Counter()
        for step, ids in alike:
            ends[step.after.tenant_id, STATUS_CODES[step.after.status]] += len(ids)
        self.count(batch, ends)

    def count(self, batch: Batch, ends: Mapping[tuple[str, int], int]) -> None:
        """Add to the numbers of ended tasks by tenant and status."""
        rows = [(tenant, status, self.shard, number) for (tenant, status), number in sorted(ends.items())]
        batch.add_counts(schema.task_count, columns=("tenant_id", "status", "shard", "number"), rows=rows)


def _is_written(step: Transition, *, live: dict[int, tuple[int, ...]], ended: dict[int, tuple[int, ...]]) -> bool:
    if step.after.status in LIVE:
        return live.get(step.task_id) == step_row(step)[2:]
    return ended.get(step.task_id) == final_row(step.after)[1:]
