"""Promises about each task: never lost, never doubled, one owner at a time, and every step a lawful one."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

from tools.check_history.history import FINAL, History, Line, ends_attempt, is_grant, moment
from tools.check_history.verdict import Promise, Violation, broken

# Stated anew, on purpose: this is what the documentation promises, not what the code does.
LAWFUL = {
    None: {"PENDING", "BLOCKED"},
    "BLOCKED": {"PENDING", "CANCELLED"},
    "PENDING": {"PROCESSING", "CANCELLED"},
    "PROCESSING": {"SUCCESS", "FAILED", "TIMEOUT", "CANCELLED", "RETRYING", "PENDING"},
    "RETRYING": {"PROCESSING", "CANCELLED"},
}
POISON_LOSSES = 3
HANDOVER_S = 12.0  # until a new leader has counted what the one before granted last
POISON_WINDOW = timedelta(hours=72)


def no_loss(history: History) -> Iterator[Violation]:
    """But for what a store of copies may lose with a failover, as its promise says (docs/explanation/guarantees.md)."""
    for request in history.requests:
        is_confirmed = (request["op"], request["type"]) == ("submit", "ok")
        if is_confirmed and request["task"] not in history.tasks and not history.may_be_lost(request):
            yield broken("I1", f"task {request['task']} was acknowledged and is not there", lines=[request])


def every_task_has_an_origin(history: History) -> Iterator[Violation]:
    asked = {request["key"] for request in history.requests if request["op"] == "submit"}
    for task in history.tasks.values():
        if task["key"] not in asked:
            yield broken("I2", f"nobody asked for task {task['task']}", lines=[task])


def one_task_per_key(history: History) -> Iterator[Violation]:
    by_key = defaultdict(list)
    for task in history.tasks.values():
        by_key[task["key"]].append(task)
    for key, tasks in by_key.items():
        if len(tasks) > 1:
            yield broken("I3", f"{len(tasks)} tasks for the idempotency key {key}", lines=tasks)


def no_early_start(history: History) -> Iterator[Violation]:
    for task in history.tasks.values():
        first = next(history.grants(task["task"]), None)
        if first is not None and task["due_at"] and moment(first["at"]) < moment(task["due_at"]):
            yield broken("I6", f"task {task['task']} was granted before {task['due_at']}", lines=[task, first])


def attempts_are_a_chain(history: History) -> Iterator[Violation]:
    for task_id, task in history.tasks.items():
        grants = list(history.grants(task_id))
        numbers = [grant["attempt"] for grant in grants]
        if numbers != list(range(1, len(grants) + 1)) or task["attempt"] != len(grants):
            yield broken("I7", f"task {task_id}: attempts {numbers}, its row says {task['attempt']}", lines=grants)
        if any(not grant["worker"] for grant in grants):
            yield broken("I7", f"task {task_id} was granted to nobody", lines=grants)


def one_owner_at_a_time(history: History) -> Iterator[Violation]:
    for task_id, entries in history.entries.items():
        is_owned = False
        for entry in entries:
            if is_grant(entry) and is_owned:
                yield broken("I8", f"task {task_id} was granted while an attempt of it ran", lines=entries)
            if is_grant(entry) or ends_attempt(entry):
                is_owned = is_grant(entry)


def results_are_fenced(history: History) -> Iterator[Violation]:
    for task_id, entries in history.entries.items():
        current = 0
        for entry in entries:
            current = entry["attempt"] if is_grant(entry) else current
            if ends_attempt(entry) and entry["attempt"] != current:
                what = f"task {task_id} was at attempt {current} when a result of attempt {entry['attempt']} counted"
                yield broken("I9", what, lines=entries)
    yield from _written_is_kept(history)


def _written_is_kept(history: History) -> Iterator[Violation]:
    """A write that was confirmed stands in the record, as it was confirmed."""
    for step in history.steps:
        if not step.get("recorded", True) or history.may_be_lost(step):
            continue
        entries = history.entries.get(step["task"], ())
        found = next((entry for entry in entries if entry["version"] == step["version"]), None)
        if step["type"] == "ok" and (found is None or found["after"] != step["after"]):
            yield broken("I9", f"a confirmed step of task {step['task']} is not in its record", lines=[step, *entries])


def an_end_is_an_end(history: History) -> Iterator[Violation]:
    for task_id, entries in history.entries.items():
        for earlier, later in pairwise(entries):
            if earlier["after"] in FINAL:
                yield broken("I10", f"task {task_id} went on after {earlier['after']}", lines=[earlier, later])
        if entries and task_id in history.tasks and entries[-1]["after"] != history.tasks[task_id]["status"]:
            yield broken("I10", f"task {task_id}: record and row differ", lines=[entries[-1], history.tasks[task_id]])


def every_step_is_lawful(history: History) -> Iterator[Violation]:
    unrecorded = {(step["task"], step["version"]) for step in history.steps if not step.get("recorded", True)}
    for task_id, entries in history.entries.items():
        versions = [entry["version"] for entry in entries]
        gaps = set(range(1, max(versions, default=0) + 1)) - set(versions)
        if versions != sorted(set(versions)) or any((task_id, version) not in unrecorded for version in gaps):
            yield broken("I11", f"the record of task {task_id} has gaps or doubles", lines=entries)
        status = None
        for entry in entries:
            before, after = entry["before"], entry["after"]
            is_note = before == after  # a change of priority or due time
            if before != status or (not is_note and after not in LAWFUL.get(before, set())):
                yield broken("I11", f"task {task_id}: {before} → {after} after {status}", lines=entries)
            status = after


def retries_are_within_budget(history: History) -> Iterator[Violation]:
    for task_id, task in history.tasks.items():
        entries = history.entries.get(task_id, [])
        spent = sum(ends_attempt(entry) and entry["after"] == "RETRYING" for entry in entries)
        if spent > task["max_retries"] or spent != task["retry_count"]:
            what = (
                f"task {task_id}: {spent} retries spent, {task['retry_count']} counted, {task['max_retries']} allowed"
            )
            yield broken("I14", what, lines=entries)
        losses = [moment(entry["at"]) for entry in entries if entry["message"] == "worker_lost"]
        for first, third in zip(losses, losses[POISON_LOSSES - 1 :], strict=False):
            if third - first <= POISON_WINDOW:
                yield broken(
                    "I14", f"task {task_id} took {POISON_LOSSES} workers down and was granted again", lines=entries
                )


def limits_hold(history: History) -> Iterator[Violation]:
    """By the order in which grants and ends were written, which a history of one process knows exactly.

    While the coordinator has lost its memory, the leader before may grant until its next renewal, beside the new one,
    and what it asked for may be written late: each keeps to the limit, both together may not, until the new leader has
    counted again. So much is promised, and no more (docs/explanation/guarantees.md).
    """
    running = Counter[str]()
    handovers = _list_late_handovers(history)
    for entry in sorted(_moves(history), key=lambda entry: entry["order"]):
        kind = history.tasks[entry["task"]]["kind"]
        running[kind] += 1 if is_grant(entry) else -1
        most = history.limits.get(kind, len(history.tasks))
        is_excused = any(0 <= entry["written_at"] - began_at <= HANDOVER_S for began_at in handovers)
        if is_grant(entry) and running[kind] > most and not is_excused:
            yield broken("I15", f"{running[kind]} of type {kind} ran at once, {most} may", lines=[entry])


def _list_late_handovers(history: History) -> list[float]:
    """When terms began after which something was still granted in an older one."""
    tried = [step for step in history.steps if "term" in step and step["type"] != "stale"]
    tried.sort(key=lambda step: bool(step["type"] == "ok"))  # whoever was told that it is written, wrote it
    terms = {(step["task"], step["version"]): step["term"] for step in tried}
    grants = [
        (terms.get((entry["task"], entry["version"]), 0), entry["written_at"])
        for entry in _moves(history)
        if is_grant(entry)
    ]
    return [
        term["mono"]
        for term in history.terms
        if any(number < term["number"] and written_at >= term["mono"] for number, written_at in grants)
    ]


def _moves(history: History) -> Iterator[Line]:
    for task_id in history.entries.keys() & history.tasks.keys():
        entries = history.entries[task_id]
        yield from (entry for entry in entries if "order" in entry and (is_grant(entry) or ends_attempt(entry)))


def cancelled_means_cancelled(history: History) -> Iterator[Violation]:
    for request in history.requests:
        task = history.tasks.get(request.get("task", ""))
        is_confirmed = (request["op"], request["type"]) == ("cancel", "ok")
        if is_confirmed and task is not None and task["status"] != "CANCELLED":
            yield broken("I16", f"task {task['task']} was cancelled and ended {task['status']}", lines=[request, task])


PROMISES = (
    Promise("I1", "what was acknowledged is never lost", no_loss),
    Promise("I2", "every task was asked for", every_task_has_an_origin),
    Promise("I3", "one task for an idempotency key", one_task_per_key),
    Promise("I6", "nothing starts before it is due", no_early_start),
    Promise("I7", "attempts are numbered without gaps, each granted once to one worker", attempts_are_a_chain),
    Promise("I8", "one owner at a time", one_owner_at_a_time),
    Promise("I9", "a stale result changes nothing, a confirmed write stays", results_are_fenced),
    Promise("I10", "an end is an end", an_end_is_an_end),
    Promise("I11", "every step is lawful and recorded", every_step_is_lawful),
    Promise("I14", "retries and losses stay within their budgets", retries_are_within_budget),
    Promise("I15", "concurrency limits hold", limits_hold),
    Promise("I16", "a cancelled task stays cancelled", cancelled_means_cancelled),
)
