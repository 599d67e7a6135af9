"""What is shown of each kind of thing in a list."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from operator import attrgetter
from typing import Any

from rota.domain.durations import format_duration
from rota.interfaces.cli.output import Column, Table
from rota.interfaces.cli.text import on_clock

NO_OCCURRENCES = """\
nothing has fired or been skipped yet; to see when something will: rota schedule next TYPE
(runs of a backfill are no occurrences; to see them: rota task ls --type TYPE --metadata backfill=NAME)"""
MOST_NAMES = 3  # of a list in a cell
LATE = timedelta(seconds=15)  # nodes show themselves every 10 seconds


def _few(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ",".join([*names[:MOST_NAMES], *([f"+{more}"] if more > 0 else [])])


def _field(title: str, name: str, *, is_wide: bool = False) -> Column:
    return Column(title, attrgetter(name), is_wide)


def _trouble(task: Any) -> str:
    return "" if task.error is None else f"{task.error.code}: {task.error.message}"[:200]


def _next_fire(config: Any) -> Any:
    """When it fires next, or why it does not."""
    if config.next_fire_at is not None or config.schedule is None:
        return config.next_fire_at
    if not config.enabled:
        return "disabled"
    return "paused" if config.schedule.get("paused") else "ended"


def _at_least(bucket: Any, figure: object) -> str:
    """A figure of a forecast; where runs are missing the least that it is, if any is known."""
    return str(figure) if bucket.complete else f"≥{figure}" if bucket.runs else "?"


def _at_least_work(bucket: Any, figure: str) -> str:
    """The same, of how much work it is: that of some runs may be unknown."""
    if bucket.runs and bucket.runs == bucket.unknown_runs:
        return "?"
    return f"≥{figure}" if bucket.unknown_runs else _at_least(bucket, figure)


def _takes_effect(setting: Any) -> str:
    if setting.restart_needed:
        return "changed: restart"
    return "live" if setting.live else "restart"


def with_ages(table: Table, now: datetime) -> Table:
    """The table with SEEN as how long ago that was."""
    ages = Column("SEEN", lambda item: _age(item, now))
    return replace(table, columns=[ages if column.title == "SEEN" else column for column in table.columns])


def nodes_at(now: datetime) -> Table:
    """The nodes, with whether they still show themselves."""

    def state(node: Any) -> str:
        return f"silent {format_duration(_age(node, now))}" if _age(node, now) > LATE else "alive"

    first, *others = NODES.columns
    return replace(NODES, columns=[first, Column("STATE", state), *others])


def occurrences_in(zone: tzinfo) -> Table:
    """The occurrences of a schedule, on the clock of its zone."""
    columns = (
        Column("TARGET", lambda one: on_clock(one.fire_at, zone)),
        _field("STATUS", "status"),
        _field("TASK", "task_id"),
        _field("REASON", "reason"),
        Column("SINCE", lambda one: None if one.since is None else on_clock(one.since, zone)),
    )
    return Table(columns, lambda one: str(one.fire_at.isoformat()), empty=NO_OCCURRENCES)


def _age(item: Any, now: datetime) -> timedelta:
    return timedelta(seconds=max(int((now - item.seen_at).total_seconds()), 0))


TASKS = Table(
    (
        _field("ID", "id"),
        _field("TYPE", "type"),
        _field("NAME", "name", is_wide=True),
        _field("STATUS", "status"),
        _field("PRIORITY", "priority"),
        _field("ATTEMPT", "attempt"),
        _field("CREATED", "created_at"),
        _field("STARTED", "started_at", is_wide=True),
        _field("COMPLETED", "completed_at"),
        _field("WORKER", "worker_id", is_wide=True),
        Column("ERROR", _trouble, is_wide=True),
    ),
    attrgetter("id"),
    empty="no such tasks; to add one: rota task submit TYPE",
)
CONFIGS = Table(
    (
        _field("TYPE", "type"),
        Column("EXECUTOR", lambda config: config.executor.get("type", "")),
        _field("ENABLED", "enabled"),
        _field("TIMEOUT_S", "timeout_seconds"),
        Column("RETRIES", lambda config: config.retry.max_retries),
        _field("PRIORITY", "priority"),
        _field("MAX", "max_concurrent"),
        _field("RATE", "rate_per_second"),
        _field("REVISION", "revision"),
        Column("NEXT", _next_fire),
        _field("NAME", "name", is_wide=True),
        _field("DESCRIPTION", "description", is_wide=True),
        _field("UPDATED", "updated_at", is_wide=True),
        _field("BY", "updated_by", is_wide=True),
    ),
    attrgetter("type"),
    empty="no types yet; a worker brings those of its code: rota worker --app FILE.py",
)
REVISIONS = Table(
    (
        _field("REVISION", "revision"),
        _field("UPDATED", "updated_at"),
        _field("BY", "updated_by"),
        Column("EXECUTOR", lambda config: config.executor.get("type", "")),
        _field("ENABLED", "enabled"),
        Column("SCHEDULE", lambda config: None if config.schedule is None else json.dumps(config.schedule)),
        _field("TYPE", "type", is_wide=True),
        _field("TIMEOUT_S", "timeout_seconds", is_wide=True),
        _field("PRIORITY", "priority", is_wide=True),
        _field("SOURCE", "source", is_wide=True),
    ),
    lambda config: str(config.revision),
)
PREVIEWS = Table((), lambda preview: str(preview.type))

FORECASTS = Table(
    (
        _field("FROM", "begin"),
        Column("RUNS", lambda bucket: _at_least(bucket, bucket.runs)),
        Column("WORK_S", lambda bucket: _at_least_work(bucket, f"{bucket.work_seconds:.1f}")),
        Column("BUSY", lambda bucket: _at_least_work(bucket, f"{bucket.busy:.1f}")),
    ),
    lambda bucket: str(bucket.begin.isoformat()),
)
FORECAST_TYPES = Table(
    (
        _field("TYPE", "type"),
        Column("RUNS", lambda load: _at_least(load, load.runs)),
        Column("RUN_TAKES_S", lambda load: "?" if load.run_seconds is None else f"{load.run_seconds:.1f}"),
        _field("FIRST", "first"),
        _field("LAST", "last"),
    ),
    attrgetter("type"),
)
CALENDARS = Table(
    (
        _field("NAME", "name"),
        _field("ORIGIN", "origin"),
        Column("YEARS", lambda calendar: "-".join(map(str, calendar.years))),
        _field("REVISION", "revision"),
        _field("UPDATED", "updated_at"),
        _field("DESCRIPTION", "description", is_wide=True),
    ),
    attrgetter("name"),
    empty="no calendars yet; to make one: rota calendar put NAME --country CN",
)
WORKERS = Table(
    (
        _field("ID", "id"),
        _field("NAME", "name"),
        Column("STATE", lambda worker: "draining" if worker.draining else "alive" if worker.alive else "silent"),
        Column("LOAD", lambda worker: f"{worker.load}/{worker.capacity}"),
        Column("TYPES", lambda worker: _few(worker.types)),
        _field("SEEN", "seen_at"),
        _field("ADDRESS", "address", is_wide=True),
        _field("WEIGHT", "weight", is_wide=True),
        _field("ALL_TYPES", "types", is_wide=True),
        Column("LABELS", lambda worker: dict(worker.labels), is_wide=True),
        _field("SINCE", "registered_at", is_wide=True),
    ),
    attrgetter("id"),
    empty="no worker lives; to run one: rota worker --app FILE.py",
)
QUEUES = Table(
    (_field("PRIORITY", "priority"), _field("READY", "ready"), _field("OLDEST_S", "oldest_age_seconds")),
    lambda queue: str(queue.priority),
)
QUEUE_TYPES = Table(
    (
        _field("TYPE", "type"),
        _field("READY", "ready"),
        _field("OLDEST_S", "oldest_age_seconds"),
        _field("DELAYED", "delayed"),
        _field("BLOCKED", "blocked", is_wide=True),
        _field("RUNNING", "running"),
    ),
    attrgetter("type"),
    empty="no task waits or runs",
)
NODES = Table(
    (
        _field("NODE", "id"),
        Column("ROLES", lambda node: list(node.roles)),
        _field("LEADER", "is_leader"),
        _field("VERSION", "version"),
        _field("SEEN", "seen_at"),
    ),
    attrgetter("id"),
)
ELECTIONS = Table(
    (
        _field("TERM", "term"),
        _field("LEADER", "node"),
        _field("BEGUN", "begun_at"),
        _field("ENDED", "ended_at"),
        _field("HOW", "ending"),
        _field("REASON", "reason"),
    ),
    lambda election: str(election.term),
)
TOKENS = Table(
    (
        _field("ID", "id"),
        _field("NAME", "name"),
        _field("ROLE", "role"),
        _field("CREATED", "created_at"),
        _field("EXPIRES", "expires_at"),
        _field("REVOKED", "revoked_at"),
        _field("USED", "last_used_at"),
        _field("TENANT", "tenant", is_wide=True),
    ),
    attrgetter("id"),
)
AUDIT = Table(
    (
        _field("AT", "at"),
        _field("ACTOR", "actor"),
        _field("TOKEN", "token_id"),
        _field("ACTION", "action"),
        _field("OBJECT", "object"),
        _field("DETAIL", "detail"),
        _field("ADDRESS", "address", is_wide=True),
        _field("ID", "id", is_wide=True),
    ),
    attrgetter("id"),
)
EVENTS = Table(
    (
        _field("AT", "at"),
        _field("KIND", "kind"),
        _field("TASK", "task_id"),
        _field("TYPE", "task_type"),
        _field("STATUS", "status"),
        _field("ATTEMPT", "attempt"),
        _field("WORKER", "worker_id"),
    ),
    attrgetter("id"),
)
SETTINGS = Table(
    (
        _field("KEY", "key"),
        Column("VALUE", lambda one: one.value if isinstance(one.value, str) else json.dumps(one.value)),
        _field("ORIGIN", "origin"),
        Column("CHANGES", _takes_effect),
        _field("DEFAULT", "default", is_wide=True),
        _field("FOR", "text", is_wide=True),
    ),
    attrgetter("key"),
)
