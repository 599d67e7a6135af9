"""Add to a history what has become of the tasks, which the processes do not write themselves.

    python -m tools.collect_history --config rota.yaml --out FOLDER/rows.jsonl

Joins the cluster as a client does, reads the rows of the default tenant, their records and what the coordinator still
holds, and changes none of it. The lines are `task`, `entry` and `quiet` of docs/reference/history.md; the simulation
and the chaos runs write theirs from here.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from rota.application.node import Node
from rota.config.embedded import plan_for
from rota.config.wiring import open_node
from rota.domain.errors import RotaError
from rota.domain.log import LINE_BITS, LogEntry
from rota.domain.paging import TaskFilter
from rota.domain.task import LogKind, Task
from rota.infrastructure.system import SystemClock
from rota.infrastructure.telemetry.history import History, to_file
from rota.infrastructure.telemetry.logging import configure_logging
from rota.sdk.tasks import TaskRegistry

PAGE = 500
AT_ONCE = 20  # records read side by side
KEY_IN = "key"  # where the clients of the tests put their idempotency keys: no task has its own


async def collect(node: Node, history: History, *, key_in: str = KEY_IN) -> tuple[int, int]:
    """Note the rows, their records, and what the coordinator still holds; how many tasks, and how many go on."""
    number = live = 0
    before, is_more = None, True
    while is_more:
        found = await node.store.tasks.list_page(TaskFilter(before=before, limit=PAGE))
        page, before, is_more = found.items, found.next_before, found.next_before is not None
        number += len(page)
        live += sum(not task.state.status.is_final for task in page)
        for begin in range(0, len(page), AT_ONCE):
            some = page[begin : begin + AT_ONCE]
            records = await asyncio.gather(*(node.store.logs.read(task.id) for task in some))
            for task, record in zip(some, records, strict=True):
                steps = list_steps(record)
                history.note("task", **describe_task(task, steps, key_in=key_in))
                for step in steps:
                    history.note("entry", **describe_step(step))
    depths = await node.coordinator.queue.depths()
    in_flight = sum(depths.in_flight.values()) + sum(depths.assigned.values())
    history.note("quiet", ready=sum(depths.ready.values()), delayed=depths.delayed, in_flight=in_flight)
    return number, live


def list_steps(record: Iterable[LogEntry]) -> list[LogEntry]:
    """Without the lines that the task wrote itself."""
    return [entry for entry in record if entry.seq % (1 << LINE_BITS) == 0]


def describe_task(task: Task, steps: Iterable[LogEntry], *, key_in: str = KEY_IN) -> dict[str, Any]:
    """The fields of a `task` line. One that was moved to another time has none to be judged by."""
    is_moved = any("due " in note for note in _list_notes(steps))
    data = task.result.data if task.result is not None else None
    value = json.loads(data) if data else ""
    return {
        "task": str(task.id),
        "key": task.spec.metadata.get(key_in, ""),
        "kind": task.spec.type,
        "status": task.state.status,
        "attempt": task.state.attempt,
        "retry_count": task.state.retry_count,
        "max_retries": task.spec.retry.max_retries,
        "due_at": "" if is_moved else _moment(task.spec.scheduled_at),
        "nonce": value if isinstance(value, str) else data,
    }


def describe_step(entry: LogEntry) -> dict[str, Any]:
    """The fields of an `entry` line."""
    return {
        "task": str(entry.task_id),
        "version": entry.seq >> LINE_BITS,
        "before": entry.from_status,
        "after": entry.to_status,
        "attempt": entry.attempt,
        "worker": str(entry.worker_id or ""),
        "at": _moment(entry.at),
        "message": entry.message if entry.kind is not LogKind.INFO else "",
        "deferred": "waits for a callback" in _list_notes([entry]),
    }


def _list_notes(steps: Iterable[LogEntry]) -> Iterator[str]:
    """What steps say that leave the status as it was."""
    return (step.message for step in steps if step.kind is LogKind.INFO)


def _moment(value: datetime | None) -> str:
    return "" if value is None else value.isoformat()


async def _collect_by(asked: argparse.Namespace) -> tuple[int, int]:
    async with open_node(plan_for(asked.config, None, app=None, tasks=TaskRegistry())) as node:
        return await collect(node, History("collector", SystemClock(), write=to_file(asked.out)), key_in=asked.key_in)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.collect_history",
        description="Add the rows of a cluster to its history, for python -m tools.check_history to judge.",
    )
    parser.add_argument("--config", type=Path, help="the settings of the cluster (rota.yaml, if it is there)")
    parser.add_argument("--out", type=Path, required=True, help="a new *.jsonl in the folder of its history")
    help_of_key = "the name under which the metadata of each task have its idempotency key (none: I3 is not judged)"
    parser.add_argument("--key-in", metavar="NAME", default="", help=help_of_key)
    asked = parser.parse_args()
    if asked.out.exists():
        parser.error(f"{asked.out} is there already; what is collected twice looks doubled")
    if asked.out.suffix != ".jsonl":
        parser.error(f"{asked.out} must end in .jsonl: the checker reads no other files")
    configure_logging("error")
    try:
        number, live = asyncio.run(_collect_by(asked))
    except RotaError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{asked.out}: {number} tasks")
    if live:
        print(
            f"{live} of them have not ended: the checker will say so (L1), and I22 means nothing yet", file=sys.stderr
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
