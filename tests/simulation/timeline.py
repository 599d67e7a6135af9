"""What happened in a seed, in short, by virtual seconds: faults, elections, crashes and who was given up."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tools.check_history.history import Line

Event = tuple[float, str]


def describe(lines: Sequence[Line]) -> Iterator[str]:
    """One line for each event, in their order."""
    by_op = {op: [line for line in lines if line["op"] == op] for op in ("entry", "fault", "harm", "term", "worker")}
    ended_at = max((entry["written_at"] for entry in by_op["entry"]), default=0.0)
    events = [
        *((fault["mono"], _describe_fault(fault)) for fault in by_op["fault"]),
        *((harm["mono"], f"{harm['pod']} is hit") for harm in by_op["harm"] if harm["mono"] <= ended_at),
        *((term["mono"], f"{term['process']} is elected, term {term['number']}") for term in by_op["term"]),
        *((worker["since"], f"{worker['pod']} joins as worker {worker['worker']}") for worker in by_op["worker"]),
        *_list_losses(by_op["entry"]),
        *((line["mono"], _describe_healing(line)) for line in lines if line["op"] == "healed"),
        (ended_at, "the last task has ended"),
    ]
    for at, what in sorted(dict.fromkeys(events), key=lambda event: event[0]):
        yield f"{at:9.3f} s  {what}"


def _describe_fault(fault: Line) -> str:
    return f"fault: {fault['name']}" if fault["type"] == "begin" else f"over: {fault['name']}"


def _list_losses(entries: Sequence[Line]) -> Iterator[Event]:
    lost = Counter((one["written_at"], one["worker"]) for one in entries if one["message"] == "worker_lost")
    for (at, worker), number in lost.items():
        yield at, f"worker {worker} is given up, attempts taken back: {number}"


def _describe_healing(healed: Line) -> str:
    lost, bad = ", ".join(healed["lost"]) or "none", "bad" if healed["bad"] else "good"
    return f"for good: well {', '.join(healed['well'])}; out of reach {lost}; the network {bad}"
