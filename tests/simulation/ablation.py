"""Safeguards, and how to switch each of them off: a safeguard that no seed misses is untested, or unneeded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest

from rota.application import callbacks, rebuild, reconcile, recover, running
from rota.application.ports.store import Written
from rota.application.work import hands
from rota.domain import task as domain_task
from rota.domain.log import entry_for
from rota.domain.task import PROCESSING, Task, TaskState, Transition
from rota.infrastructure.store.memory import tasks as memory_tasks

Switch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Safeguard:
    name: str
    switch_off: Switch
    caught_by: frozenset[str]  # the promises of which at least one must break
    first: int = 0  # a seed that is known to show it: tried before all others


async def _do_nothing(*_args: object, **_kwargs: object) -> None: ...


def _no_version_check(patch: pytest.MonkeyPatch) -> None:
    """Any step is written, whatever the task has become since."""

    async def advance(
        self: memory_tasks.MemoryTaskStore, steps: Sequence[Transition], *, audit: object = ()
    ) -> Written:
        written = []
        for step in steps:
            if step.task_id in self._state.tasks:
                current = self._state.tasks[step.task_id]
                self._state.tasks[step.task_id] = Task(
                    spec=current.spec, state=step.after, result=step.result, error=step.error
                )
                self._state.keep(entry_for(step))
                if step.after.status.is_final:
                    self._state.live.discard(step.task_id)
                else:
                    self._state.live.add(step.task_id)
                written.append(step.task_id)
        return Written(frozenset(written))

    patch.setattr(memory_tasks.MemoryTaskStore, "advance", advance)


def _no_unique_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        memory_tasks.MemoryTaskStore,
        "_claim_keys",
        lambda _self, new: {(one.task.spec.tenant_id, one.key): (one.task.id, one.digest) for one in new if one.key},
    )


def _no_reconciliation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile.ReconcileQueue, "__call__", _do_nothing)
    patch.setattr(reconcile.ReconcileDeliveries, "__call__", _do_nothing)


def _no_rebuild(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rebuild.RebuildQueues, "if_lost", _do_nothing)
    patch.setattr(reconcile.ReconcileQueue, "__call__", _do_nothing)


def _no_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recover.RecoverLostWorkers, "__call__", _do_nothing)
    patch.setattr(recover.EndSilentAttempts, "__call__", _do_nothing)


def _no_dedupe_at_the_worker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hands.Hands, "__contains__", lambda self, attempt: attempt in self.taken)


def _no_look_before_starting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskState, "is_held_by", lambda _self, _attempt: True)


def _no_quarantine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(domain_task, "POISON_WINDOW", timedelta(seconds=-1))


def _no_count_of_what_runs(patch: pytest.MonkeyPatch) -> None:
    """A new leader takes it that nothing runs."""

    async def seed(self: running.RunningOfTypes) -> None:
        self._seed_at = float("inf")

    patch.setattr(running.RunningOfTypes, "_seed", seed)


def _no_fence_for_callbacks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(callbacks, "_is_running", lambda task, _attempt: task.state.status is PROCESSING)


def _no_end_of_silent_attempts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recover.EndSilentAttempts, "__call__", _do_nothing)


SAFEGUARDS = (
    Safeguard(
        "a step is written only while the task is as it was read",
        _no_version_check,
        frozenset({"I8", "I9", "I10", "I11", "I14"}),
    ),
    Safeguard("an idempotency key is unique", _no_unique_keys, frozenset({"I3"}), first=20),
    Safeguard("store and coordinator are compared", _no_reconciliation, frozenset({"L1", "I22"})),
    Safeguard("a lost memory is rebuilt", _no_rebuild, frozenset({"L1"}), first=1),
    Safeguard("the attempts of dead workers are taken back", _no_recovery, frozenset({"L1"})),
    Safeguard("a worker begins an attempt once", _no_dedupe_at_the_worker, frozenset({"I19"})),
    Safeguard(
        "a worker reads the row before it begins",
        _no_look_before_starting,
        frozenset({"I18", "I19", "I20", "L1", "I22"}),
        first=4,
    ),
    Safeguard("a task that takes workers down is quarantined", _no_quarantine, frozenset({"I14"}), first=7),
    Safeguard("a new leader counts what runs", _no_count_of_what_runs, frozenset({"I15"}), first=12),
    Safeguard("a callback counts for its attempt only", _no_fence_for_callbacks, frozenset({"I20", "I28"}), first=2),
    Safeguard("an attempt that nobody ends is ended", _no_end_of_silent_attempts, frozenset({"L1"})),
)
