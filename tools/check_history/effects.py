"""Promises about what really ran, by the ledger that the called side kept itself; about leaders; and about the end."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tools.check_history.history import FINAL, History, Line, ends_attempt
from tools.check_history.verdict import Finding, Promise

MOST_ATTEMPTS = 60  # of one task: more is a hot loop


def no_phantom_calls(history: History) -> Iterator[Finding]:
    granted = {
        (task_id, grant["attempt"], grant["worker"]) for task_id in history.entries for grant in history.grants(task_id)
    }
    lost = history.lost_steps(only_grants=True)
    granted_to_any = {grant[:2] for grant in granted}  # for ledgers that do not know on which worker they are
    for call in history.calls:
        attempt = (call["task"], call["attempt"])
        is_granted = (*attempt, call["worker"]) in granted if "worker" in call else attempt in granted_to_any
        if call["type"] == "invoke" and not is_granted and not lost[attempt]:
            yield f"attempt {call['attempt']} of task {call['task']} ran without a grant", [call]


def one_call_per_attempt(history: History) -> Iterator[Finding]:
    calls = defaultdict(list)
    for call in history.calls:
        if call["type"] == "invoke":
            calls[call["task"], call["attempt"]].append(call)
    lost = history.lost_steps()  # an attempt whose grant or end is forgotten may begin again
    for (task_id, attempt), several in calls.items():
        if len(several) > 1 + lost[task_id, attempt]:
            yield f"attempt {attempt} of task {task_id} ran {len(several)} times", several


def success_had_a_witness(history: History) -> Iterator[Finding]:
    returned: dict[tuple[str, int], set[str]] = defaultdict(set)
    for call in history.calls:
        if call["type"] == "ok":
            returned[call["task"], call["attempt"]].add(call["nonce"])
    for task_id, task in history.tasks.items():
        if task["status"] == "SUCCESS" and task["nonce"] not in returned[task_id, task["attempt"]]:
            yield f"task {task_id} succeeded with a result that no call of it returned", [task]


def deferred_attempts_outlive_their_workers(history: History) -> Iterator[Finding]:
    for task_id, entries in history.entries.items():
        is_deferred = False
        for entry in entries:
            if is_deferred and entry["message"] == "worker_lost":
                yield f"a deferred attempt of task {task_id} was lost with its worker", entries
            is_deferred = entry["deferred"] or (is_deferred and not ends_attempt(entry))


def callbacks_count_once(history: History) -> Iterator[Finding]:
    """One that was confirmed has ended just this attempt, and what it brought is what the task has."""
    for callback in history.callbacks:
        if callback["type"] != "ok" or history.may_be_lost(callback):
            continue
        task, entries = history.tasks.get(callback["task"]), history.entries.get(callback["task"], [])
        ends = [entry for entry in entries if ends_attempt(entry) and entry["attempt"] == callback["attempt"]]
        if task is None or len(ends) != 1:
            yield f"a callback for task {callback['task']} was confirmed and ended nothing", [callback]
        elif ends[0]["after"] == "SUCCESS" and task["nonce"] != callback["nonce"]:
            yield f"task {callback['task']} has another result than its callback", [callback, task]


def terms_grow(history: History) -> Iterator[Finding]:
    numbers = Counter(term["number"] for term in history.terms)
    for number, times in numbers.items():
        if times > 1:
            yield f"term {number} began {times} times", [t for t in history.terms if t["number"] == number]
    last: dict[str, Line] = {}
    for step in sorted(_grants(history), key=lambda step: (step["version"], step["term"])):
        earlier = last.get(step["task"])
        if earlier is not None and earlier["term"] > step["term"]:
            yield f"task {step['task']} was granted in an older term than before", [earlier, step]
        last[step["task"]] = step


def leaders_act_while_trusted(history: History) -> Iterator[Finding]:
    for step in history.steps:
        if "term" in step and step["asked_at"] > step["trusted_until"]:
            yield f"a leader granted task {step['task']} after its trust had run out", [step]


def the_coordinator_is_empty_at_the_end(history: History) -> Iterator[Finding]:
    if history.quiet is not None and any(history.quiet[what] for what in ("ready", "delayed", "in_flight")):
        yield "something is left in the coordinator though every task has ended", [history.quiet]


def everything_ends(history: History) -> Iterator[Finding]:
    for task_id, task in history.tasks.items():
        if task["status"] not in FINAL:
            yield f"task {task_id} never ended: {task['status']}", [task, *history.entries[task_id]]


def nothing_runs_hot(history: History) -> Iterator[Finding]:
    for task_id, task in history.tasks.items():
        if task["attempt"] > MOST_ATTEMPTS:
            yield f"task {task_id} needed {task['attempt']} attempts", history.entries[task_id]


def _grants(history: History) -> Iterator[Line]:
    return (step for step in history.steps if "term" in step and step["type"] == "ok")


PROMISES = (
    Promise("I12", "terms only grow", terms_grow, needs=("term",)),
    Promise(
        "I13", "a leader acts only while it can trust that it leads", leaders_act_while_trusted, needs=("step.term",)
    ),
    Promise("I18", "nothing runs without a grant", no_phantom_calls, needs=("call:invoke", "entry")),
    Promise("I19", "an attempt runs once", one_call_per_attempt, needs=("call:invoke",)),
    Promise("I20", "a success is what the accepted attempt returned", success_had_a_witness, needs=("task", "call:ok")),
    Promise("I22", "the coordinator forgets what has ended", the_coordinator_is_empty_at_the_end, needs=("quiet",)),
    Promise(
        "I27",
        "a deferred attempt does not end with its worker",
        deferred_attempts_outlive_their_workers,
        needs=("entry.deferred",),
    ),
    Promise(
        "I28",
        "a confirmed callback has ended its attempt",
        callbacks_count_once,
        needs=("callback:ok", "task", "entry"),
    ),
    Promise("L1", "everything ends once the faults are over", everything_ends, needs=("task",)),
    Promise("L6", "nothing runs hot", nothing_runs_hot, needs=("task",)),
)
