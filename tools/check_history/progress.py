"""Promises about getting on: what is still well is enough, and whoever is well is left in peace.

They need to know who was well, and when, by one clock: only the simulation tells.
"""

from collections.abc import Iterator

from tools.check_history.history import History, Line, ends_attempt, is_grant, moment
from tools.check_history.verdict import Finding, Promise

GRANTED_WITHIN = 30.0  # seconds, after which a leader gives up whose every other call fails; all else takes half of it
BEGUN_WITHIN = 12.0  # the leader is lost before it hands over (8), and the next one looks what is missing
BEGUN_IN_THE_END = 24.0  # where calls go on failing: the next one is elected and does not hear of it, twice (12)
NOTICED_WITHIN = 15.0  # a lease of a worker
BAD_FOR = 20.0  # so long after the network was bad it may still be the cause
JOINED_BEFORE = 10.0  # the clock of the store, by which workers join, may differ by so much


def waiting_tasks_get_their_turn(history: History) -> Iterator[Finding]:
    """Of the types that have no limit, once the core is well."""
    if history.healed is None:
        return
    for task_id, task in history.tasks.items():
        if task["kind"] in history.limits:
            continue
        for entry, until in _with_ends(history, task_id):
            begins = max(entry["written_at"] + _delay(task, entry), history.healed["mono"])
            if entry["after"] == "PENDING" and until - begins > GRANTED_WITHIN:
                yield f"task {task_id} waited for {until - begins:.0f} s", [history.healed, entry]


def granted_attempts_begin(history: History) -> Iterator[Finding]:
    """By workers that are well. One whose pod was started anew after it had ended before: its attempts are lost. What
    is granted to a worker that is no more is taken back as soon."""
    if history.healed is None:
        return
    present = {one["pod"]: one["worker"] for one in sorted(history.workers.values(), key=lambda one: one["since"])}
    well = {present.get(pod) for pod in history.healed["well"]}
    within = BEGUN_IN_THE_END if history.healed.get("bad") else BEGUN_WITHIN
    begun = {(call["task"], call["attempt"]): call["mono"] for call in history.calls if call["type"] == "invoke"}
    for task_id in history.tasks:
        for grant, until in _with_ends(history, task_id):
            if not is_grant(grant) or grant["written_at"] < history.healed["mono"]:
                continue
            waited = min(begun.get((task_id, grant["attempt"]), until), until) - grant["written_at"]
            retired_at = history.workers.get(grant["worker"], {}).get("until")
            is_no_more = retired_at is not None and grant["written_at"] > retired_at
            if waited > within and (is_no_more or grant["worker"] in well):
                what = f"attempt {grant['attempt']} of task {task_id} was granted, and not begun for {waited:.0f} s"
                yield what, [history.healed, grant]


def nothing_is_given_to_the_unreachable(history: History) -> Iterator[Finding]:
    if history.healed is None:
        return
    healed_at: float = history.healed["mono"]
    lost_at = dict.fromkeys(history.healed["lost"], healed_at) | history.lost
    for task_id in history.tasks:
        for grant in history.grants(task_id):
            pod = history.workers.get(grant["worker"], {}).get("pod", "")
            since = lost_at.get(pod, history.ended_at)
            if grant["written_at"] > since + NOTICED_WITHIN:
                what = f"task {task_id} was given to a worker that has been out of reach for long"
                yield what, [history.healed, grant]


def the_well_are_not_given_up(history: History) -> Iterator[Finding]:
    """Whatever happens to the servers: a worker that nothing happened to itself keeps what it runs."""
    for entries in history.entries.values():
        for entry in entries:
            worker = history.workers.get(entry["worker"])
            if entry["message"] != "worker_lost" or worker is None:
                continue
            is_harmed = any(
                harm["pod"] == worker["pod"] and worker["since"] - JOINED_BEFORE <= harm["mono"] <= entry["written_at"]
                for harm in history.harms
            )
            if not is_harmed and not _was_network_bad(history, entry["written_at"]):
                yield f"worker {entry['worker']} was well and was given up", [entry]


def _was_network_bad(history: History, moment: float) -> bool:
    """At the moment, or shortly before it."""
    if history.healed is not None and history.healed["mono"] <= moment:
        return True
    begun: dict[str, float] = {}
    spells = []
    for fault in history.faults:
        if fault["name"].startswith("bad_network"):
            if fault["type"] == "begin":
                begun[fault["name"]] = fault["mono"]
            else:
                spells.append((begun.pop(fault["name"], fault["mono"]), fault["mono"]))
    spells += [(begin, moment) for begin in begun.values()]
    return any(begin <= moment <= end + BAD_FOR for begin, end in spells)


def _with_ends(history: History, task_id: str) -> Iterator[tuple[Line, float]]:
    """Each entry of a record, with when the next one that changes the status or ends the attempt was written."""
    entries = history.entries.get(task_id, [])
    for place, entry in enumerate(entries):
        later = (one for one in entries[place + 1 :] if one["before"] != one["after"] or ends_attempt(one))
        following = next(later, None)
        yield entry, history.ended_at if following is None else following["written_at"]


def _delay(task: Line, entry: Line) -> float:
    due_at = task["due_at"]
    return max((moment(due_at) - moment(entry["at"])).total_seconds(), 0.0) if due_at else 0.0


PROMISES = (
    Promise(
        "I29", "a worker that is well is not given up", the_well_are_not_given_up, needs=("worker", "entry.written_at")
    ),
    Promise(
        "L2",
        "what waits gets its turn, though some stay ill",
        waiting_tasks_get_their_turn,
        needs=("healed", "task", "entry.written_at"),
    ),
    Promise(
        "L4",
        "what was granted begins",
        granted_attempts_begin,
        needs=("healed", "worker", "task", "entry.written_at", "call.mono"),
    ),
    Promise(
        "L5",
        "nothing is given to a worker that is out of reach",
        nothing_is_given_to_the_unreachable,
        needs=("healed", "worker", "task", "entry.written_at"),
    ),
)
