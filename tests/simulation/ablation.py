"""Safeguards, and how to switch each of them off: a safeguard that no seed misses is untested, or unneeded."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest

from rota.application import callbacks, grant, lead, rebuild, reconcile, recover, running
from rota.application.elect import Leadership
from rota.application.ports.store import Written
from rota.application.reign import Reign
from rota.application.work import beat, hands
from rota.domain import task as domain_task
from rota.domain.log import entry_for
from rota.domain.task import PROCESSING, Task, TaskState, Transition
from rota.domain.term import Term
from rota.infrastructure.store.memory import tasks as memory_tasks
from rota.testing.faulty_store import FaultyTermStore

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
    patch.setattr(memory_tasks, "find_owners", lambda new, _known: [one.task.id for one in new])


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


def _no_fence_for_callbacks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(callbacks, "_is_running", lambda task, _attempt: task.state.status is PROCESSING)


def _no_end_of_silent_attempts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recover.EndSilentAttempts, "__call__", _do_nothing)


def _no_trust_window(patch: pytest.MonkeyPatch) -> None:
    """A leader leads until it is told that it does not."""

    async def watch(_self: Leadership, _reign: Reign) -> str:
        await asyncio.Event().wait()
        return ""

    patch.setattr(Term, "is_trusted", lambda self, _monotonic: self.trusted_until > float("-inf"))
    patch.setattr(Leadership, "_watch", watch)


def _no_look_after_silence(patch: pytest.MonkeyPatch) -> None:
    """A call without an answer is taken for none: a grant is not looked up, and nothing is compared before its time."""
    patch.setattr(lead, "UNSETTLED_FOR", 0.0)
    real = grant.Grants.settle

    async def settle(self: grant.Grants) -> None:
        self._doubts = {}
        await real(self)

    patch.setattr(grant.Grants, "settle", settle)


def _no_comparison_soon(patch: pytest.MonkeyPatch) -> None:
    """A reign that begins, or a call without an answer, is no reason to compare before its time."""
    patch.setattr(lead, "UNSETTLED_FOR", 0.0)


def _no_count_of_what_runs(patch: pytest.MonkeyPatch) -> None:
    """A new leader takes it that nothing runs yet."""

    async def seed(self: running.RunningOfTypes) -> None:
        self._seed_at = float("inf")

    patch.setattr(running.RunningOfTypes, "_seed", seed)


def _no_second_witness(patch: pytest.MonkeyPatch) -> None:
    """Whom the pool does not know is dead."""
    patch.setattr(recover, "_is_older", lambda _record, _limit: True)


def _no_look_at_the_store_in_renewal(patch: pytest.MonkeyPatch) -> None:
    async def confirm(_self: FaultyTermStore, _number: int) -> bool:
        return True

    patch.setattr(FaultyTermStore, "confirm", confirm)


def _no_word_of_being_cut_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(beat.Presence, "_as_told", lambda _self, worker: worker)


SAFEGUARDS = (
    Safeguard(
        "a step is written only while the task is as it was read",
        _no_version_check,
        frozenset({"I8", "I9", "I10", "I11", "I14"}),
        first=1,
    ),
    Safeguard("an idempotency key is unique", _no_unique_keys, frozenset({"I3"}), first=11),
    Safeguard("store and coordinator are compared", _no_reconciliation, frozenset({"L1", "I22"}), first=11),
    Safeguard("a lost memory is rebuilt", _no_rebuild, frozenset({"L1"})),
    Safeguard("the attempts of dead workers are taken back", _no_recovery, frozenset({"L1"})),
    Safeguard("a worker begins an attempt once", _no_dedupe_at_the_worker, frozenset({"I19"})),
    Safeguard(
        "a worker reads the row before it begins",
        _no_look_before_starting,
        frozenset({"I18", "I19", "I20", "L1", "I22"}),
        first=21,
    ),
    Safeguard("a task that takes workers down is quarantined", _no_quarantine, frozenset({"I14"}), first=33),
    Safeguard("a callback counts for its attempt only", _no_fence_for_callbacks, frozenset({"I20", "I28"}), first=3),
    Safeguard("an attempt that nobody ends is ended", _no_end_of_silent_attempts, frozenset({"L1"})),
    Safeguard("a leader stops acting when its trust runs out", _no_trust_window, frozenset({"I13"}), first=2),
    Safeguard(
        "after a call without an answer the leader looks", _no_look_after_silence, frozenset({"L2", "L4"}), first=939
    ),
    Safeguard(
        "after silence store and coordinator are compared soon",
        _no_comparison_soon,
        frozenset({"L2", "L4", "L5"}),
        first=939,
    ),
    Safeguard("a new leader counts what runs", _no_count_of_what_runs, frozenset({"I15"}), first=1),
    Safeguard("a lost memory is no evidence of death", _no_second_witness, frozenset({"I29"}), first=5),
    Safeguard(
        "a renewal proves that the store can be reached",
        _no_look_at_the_store_in_renewal,
        frozenset({"L2"}),
        first=19,
    ),
    Safeguard(
        "a worker cut off from the store is given nothing", _no_word_of_being_cut_off, frozenset({"L5"}), first=35
    ),
)
