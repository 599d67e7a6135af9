"""XXL-JOB's table `xxl_job_info`, as CSV with a header or as the INSERTs of a dump.

Its cron is that of Quartz, in the zone of the admin's machine. A late trigger of up to five seconds fires in any case.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rota.interfaces.cli.imports.translation import Translation, type_of

COLUMNS = (
    *("id", "job_group", "job_desc", "add_time", "update_time", "author", "alarm_email", "schedule_type"),
    *("schedule_conf", "misfire_strategy", "executor_route_strategy", "executor_handler", "executor_param"),
    *("executor_block_strategy", "executor_timeout", "executor_fail_retry_count", "glue_type", "glue_source"),
    *("glue_remark", "glue_updatetime", "child_jobid", "trigger_status", "trigger_last_time", "trigger_next_time"),
)
_MISSED = {"DO_NOTHING": "skip", "FIRE_ONCE_NOW": "run_once"}
_OVERLAP = {"SERIAL_EXECUTION": "queue_all", "DISCARD_LATER": "skip", "COVER_EARLY": "cancel_running"}
_LATE_S = 5.0
_INSERT = re.compile(r"INSERT\s+INTO\s+[`\"]?xxl_job_info[`\"]?\s*(?:\(([^)]*)\))?\s*VALUES\s*", re.IGNORECASE)
_TOKEN = re.compile(r"\s*(?:'((?:[^'\\]|\\.|'')*)'|([^\s,()';]+)|([(),;]))", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": ""}
Row = Mapping[str, str]


class _UnreadableError(Exception):
    """What would be read in part, or wrongly."""


def read_jobs(text: str, *, zone: str, now: datetime, place: str = "xxl-job") -> Translation:
    """Jobs that have had their last time by now are noted."""
    found = Translation(now)
    try:
        rows = list(_read_dump(text)) if _INSERT.search(text) else list(_read_csv(text))
    except _UnreadableError as error:
        found.note(place, f"not translated: {error}")
        return found
    if not rows:
        found.note(place, "has no row of xxl_job_info, neither as CSV with a header nor as INSERT")
    for row in rows:
        _read_job(found, row, zone=zone, place=f"{place}: job {row.get('id') or '?'}")
    if len(groups := {row.get("job_group", "") for row in rows}) > 1:
        found.note(
            place, f"has {len(groups)} groups of executors: which workers run a type is up to their worker.types"
        )
    return found


def _read_job(found: Translation, row: Row, *, zone: str, place: str) -> None:
    handler, glue = row.get("executor_handler", ""), row.get("glue_type") or "BEAN"
    if glue != "BEAN":
        found.note(place, f"not translated: {glue} keeps its code in XXL-JOB; make a function of it")
        return
    try:
        schedule = _schedule(row, zone)
    except _UnreadableError as error:
        found.note(place, f"not translated: {error}")
        return
    overlap = _OVERLAP.get(row.get("executor_block_strategy") or "SERIAL_EXECUTION", "queue_all")
    name = row.get("job_desc") or row.get("name") or handler
    definition: dict[str, Any] = {
        "type": type_of(handler, f"job-{row.get('id', '')}"),
        "name": name[:200],
        "description": f"from {place}",
        "executor": {"type": "local"},
        "retry": {"max_retries": _number(row, "executor_fail_retry_count"), "strategy": "FIXED", "delay_seconds": 0},
        "payload": {"param": row.get("executor_param", "")},
    }
    if timeout := _number(row, "executor_timeout"):
        definition["timeout_seconds"] = timeout
    else:
        found.note(place, "has no timeout; here it is five minutes unless timeout_seconds says otherwise")
    if overlap == "queue_all":
        definition["max_concurrent"] = 1
    timing = None if schedule is None else {**schedule, "overlap": overlap, **_missed_and_paused(row)}
    if found.add(place, definition, schedule=timing, ending=row.get("id")):
        if timing is None:
            found.note(
                place, "has no schedule: run it by rota config-type trigger, or from the job that it is a child of"
            )
        elif not row.get("trigger_status"):
            found.note(place, "has no trigger_status: whether it was stopped is not known, and its schedule is paused")
        _note_rest(found, row, place=place)


def _note_rest(found: Translation, row: Row, *, place: str) -> None:
    route = row.get("executor_route_strategy", "")
    if route == "SHARDING_BROADCAST":
        found.note(place, "ran on all executors at once (SHARDING_BROADCAST); here one worker runs it")
    elif route:
        found.note(place, f"{route} is left out: which worker runs it is up to scheduler.balancer")
    for name, known, taken in (
        ("executor_block_strategy", _OVERLAP, "overlap: queue_all"),
        ("misfire_strategy", _MISSED, "on_missed: skip"),
    ):
        if row.get(name) and row[name] not in known:
            found.note(place, f"{name} {row[name]} is not known; it has {taken}")
    for name in ("executor_timeout", "executor_fail_retry_count"):
        if row.get(name) and not row[name].isdigit():
            found.note(place, f"{name} {row[name]} is left out: it is no number from 0")
    if row.get("child_jobid"):
        found.note(place, f"children are left out: {row['child_jobid']}")
    if row.get("alarm_email"):
        found.note(place, f"nobody is mailed when it fails: {row['alarm_email']}")


def _missed_and_paused(row: Row) -> dict[str, Any]:
    missed = {"on_missed": _MISSED.get(row.get("misfire_strategy", ""), "skip"), "missed_grace_seconds": _LATE_S}
    if _number(row, "trigger_status") == 1:
        return missed
    return {**missed, "paused": True, "pause_note": "was stopped in XXL-JOB"}  # where it could still be run by hand


def _schedule(row: Row, zone: str) -> dict[str, Any] | None:
    """When it fires; None: only if somebody, or another job, runs it."""
    conf = row.get("schedule_conf") or row.get("job_cron", "")
    kind = row.get("schedule_type") or ("CRON" if row.get("job_cron") else "NONE")
    if kind == "CRON":
        return {"cron": conf, "dialect": "quartz", "zone": zone}
    if kind in ("FIX_RATE", "FIX_DELAY") and conf.isdigit():
        return {"every_seconds" if kind == "FIX_RATE" else "after_end_seconds": int(conf)}
    if kind == "NONE":
        return None
    raise _UnreadableError(f"schedule type {kind} with {conf!r}")


def _number(row: Row, name: str) -> int:
    text = row.get(name, "")
    return int(text) if text.isdigit() else 0


def _read_csv(text: str) -> Iterator[Row]:
    for row in csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))):
        if "schedule_conf" in row or "job_cron" in row:
            yield {name: "" if value in (None, "NULL", "\\N") else value for name, value in row.items() if name}


def _read_dump(text: str) -> Iterator[Row]:
    for insert in _INSERT.finditer(text):
        named = insert[1]
        columns = [name.strip(' `"\n') for name in named.split(",")] if named else list(COLUMNS)
        for values in _tuples(text, insert.end()):
            if len(values) != len(columns):
                problem = f"a row has {len(values)} values for {len(columns)} columns"
                raise _UnreadableError(f"{problem}; dump it with their names (mysqldump --complete-insert)")
            yield dict(zip(columns, values, strict=True))


def _tuples(text: str, position: int) -> Iterator[list[str]]:
    """The rows behind VALUES, until the end of the statement."""
    values: list[str] = []
    is_going_on = False  # texts side by side are one
    while token := _TOKEN.match(text, position):
        position = token.end()
        quoted, bare, mark = token.groups()
        if quoted is not None:
            text_before = values.pop() if is_going_on else ""
            values.append(text_before + re.sub(r"\\(.)|''", lambda one: _unescape(one[1]), quoted, flags=re.DOTALL))
        elif bare is not None:
            values.append("" if bare.upper() == "NULL" else bare)
        elif mark == "(":
            values = []
        elif mark == ")":
            yield values
        elif mark == ";":
            return
        is_going_on = quoted is not None
    if rest := text[position:].strip():
        raise _UnreadableError(f"an INSERT cannot be read from {rest[:40]!r} on")


def _unescape(given: str | None) -> str:
    return "'" if given is None else _ESCAPES.get(given, given)
