"""Promises about each task: never lost, never doubled, one owner at a time, and every step a lawful one."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

from tools.check_history.history import FINAL, History, Line, ends_attempt, is_grant, moment
from tools.check_history.verdict import Finding, Promise

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


def no_loss(history: History) -> Iterator[Finding]:
    """But for what a store of copies may lose with a failover, as its promise says (docs/explanation/guarantees.md)."""
    for request in history.requests:
        is_confirmed = (request["op"], request["type"]) == ("submit", "ok")
        if is_confirmed and request["task"] not in history.tasks and not history.may_be_lost(request):
            yield f"task {request['task']} was acknowledged and is not there", [request]


def every_task_has_an_origin(history: History) -> Iterator[Finding]:
    asked = {request["key"] for request in history.requests if request["op"] == "submit"}
    for task_id, task in history.tasks.items():
        if task["key"] not in asked:
            yield f"nobody asked for task {task_id}", [task]


def one_task_per_key(history: History) -> Iterator[Finding]:
    by_key = defaultdict(list)
    for task in history.tasks.values():
        by_key[task["key"]].append(task)
    for key, tasks in by_key.items():
        if key and len(tasks) > 1:
            yield f"{len(tasks)} tasks for the idempotency key {key}", tasks


def no_early_start(history: History) -> Iterator[Finding]:
    for task in history.tasks.values():
        first = next(history.grants(task["task"]), None)
        if first is not None and task["due_at"] and moment(first["at"]) < moment(task["due_at"]):
            yield f"task {task['task']} was granted before {task['due_at']}", [task, first]


def attempts_are_a_chain(history: History) -> Iterator[Finding]:
    for task_id, task in history.tasks.items():
        grants = list(history.grants(task_id))
        numbers = [grant["attempt"] for grant in grants]
        if numbers != list(range(1, len(grants) + 1)) or task["attempt"] != len(grants):
            yield f"task {task_id}: attempts {numbers}, its row says {task['attempt']}", grants
        if any(not grant["worker"] for grant in grants):
            yield f"task {task_id} was granted to nobody", grants


def one_owner_at_a_time(history: History) -> Iterator[Finding]:
    for task_id, entries in history.entries.items():
        is_owned = False
        for entry in entries:
            if is_grant(entry) and is_owned:
                yield f"task {task_id} was granted while an attempt of it ran", entries
            if is_grant(entry) or ends_attempt(entry):
                is_owned = is_grant(entry)


def results_are_fenced(history: History) -> Iterator[Finding]:
    for task_id, entries in history.entries.items():
        current = 0
        for entry in entries:
            current = entry["attempt"] if is_grant(entry) else current
            if ends_attempt(entry) and entry["attempt"] != current:
                what = f"task {task_id} was at attempt {current} when a result of attempt {entry['attempt']} counted"
                yield what, entries


def confirmed_writes_stay(history: History) -> Iterator[Finding]:
    """In the record, as they were confirmed."""
    for step in history.steps:
        if not step.get("recorded", True) or history.may_be_lost(step):
            continue
        entries = history.entries.get(step["task"], ())
        found = next((entry for entry in entries if entry["version"] == step["version"]), None)
        if step["type"] == "ok" and (found is None or found["after"] != step["after"]):
            yield f"a confirmed step of task {step['task']} is not in its record", [step, *entries]


def an_end_is_an_end(history: History) -> Iterator[Finding]:
    for task_id, entries in history.entries.items():
        for earlier, later in pairwise(entries):
            if earlier["after"] in FINAL:
                yield f"task {task_id} went on after {earlier['after']}", [earlier, later]
        if entries and task_id in history.tasks and entries[-1]["after"] != history.tasks[task_id]["status"]:
            yield f"task {task_id}: record and row differ", [entries[-1], history.tasks[task_id]]


def every_step_is_lawful(history: History) -> Iterator[Finding]:
    unrecorded = {(step["task"], step["version"]) for step in history.steps if not step.get("recorded", True)}
    for task_id, entries in history.entries.items():
        versions = [entry["version"] for entry in entries]
        gaps = set(range(1, max(versions, default=0) + 1)) - set(versions)
        if versions != sorted(set(versions)) or any((task_id, version) not in unrecorded for version in gaps):
            yield f"the record of task {task_id} has gaps or doubles", entries
        status = None
        for entry in entries:
            before, after = entry["before"], entry["after"]
            is_note = before == after  # a change of priority or due time
            if before != status or (not is_note and after not in LAWFUL.get(before, set())):
                yield f"task {task_id}: {before} → {after} after {status}", entries
            status = after


def retries_are_within_budget(history: History) -> Iterator[Finding]:
    for task_id, task in history.tasks.items():
        entries = history.entries.get(task_id, [])
        spent = sum(ends_attempt(entry) and entry["after"] == "RETRYING" for entry in entries)
        if spent > task["max_retries"] or spent != task["retry_count"]:
            what = (
                f"task {task_id}: {spent} retries spent, {task['retry_count']} counted, {task['max_retries']} allowed"
            )
            yield what, entries
        losses = [moment(entry["at"]) for entry in entries if entry["message"] == "worker_lost"]
        for first, third in zip(losses, losses[POISON_LOSSES - 1 :], strict=False):
            if third - first <= POISON_WINDOW:
                yield f"task {task_id} took {POISON_LOSSES} workers down and was granted again", entries


def limits_hold(history: History) -> Iterator[Finding]:
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
            yield f"{running[kind]} of type {kind} ran at once, {most} may", [entry]


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


def cancelled_means_cancelled(history: History) -> Iterator[Finding]:
    for request in history.requests:
        task = history.tasks.get(request.get("task", ""))
        is_confirmed = (request["op"], request["type"]) == ("cancel", "ok") and not history.may_be_lost(request)
        if is_confirmed and task is not None and task["status"] != "CANCELLED":
            yield f"task {task['task']} was cancelled and ended {task['status']}", [request, task]


PROMISES = (
    Promise("I1", "what was acknowledged is never lost", no_loss, needs=("submit:ok",)),
    Promise("I2", "every task was asked for", every_task_has_an_origin, needs=("submit", "task")),
    Promise("I3", "one task for an idempotency key", one_task_per_key, needs=("task.key",)),
    Promise("I6", "nothing starts before it is due", no_early_start, needs=("task.due_at", "entry")),
    Promise(
        "I7",
        "attempts are numbered without gaps, each granted once to one worker",
        attempts_are_a_chain,
        needs=("task", "entry"),
    ),
    Promise("I8", "one owner at a time", one_owner_at_a_time, needs=("entry",)),
    Promise("I9", "a stale result changes nothing", results_are_fenced, needs=("entry",)),
    Promise("I9", "a confirmed write stays", confirmed_writes_stay, needs=("step:ok", "entry")),
    Promise("I10", "an end is an end", an_end_is_an_end, needs=("task", "entry")),
    Promise("I11", "every step is lawful and recorded", every_step_is_lawful, needs=("entry",)),
    Promise("I14", "retries and losses stay within their budgets", retries_are_within_budget, needs=("task", "entry")),
    Promise("I15", "concurrency limits hold", limits_hold, needs=("limit", "task", "entry.order", "entry.written_at")),
    Promise("I16", "a cancelled task stays cancelled", cancelled_means_cancelled, needs=("cancel:ok", "task")),
)
