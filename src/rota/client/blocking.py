"""`rota.Client`: a Rota server, for programs that do not await.

    with rota.Client("https://rota.example.com", "rota_…") as client:
        handle = client.submit("send_email", {"to": "ada@example.com"})
        task = handle.wait("30s")

Without arguments it takes `ROTA_URL` and `ROTA_TOKEN`, or else finds the `rota dev` of this folder, as commands do.
Every call ends within `timeout`, all its tries together.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from rota.client import cluster_calls, schedule_calls, task_calls
from rota.client.cluster_calls import MOST_COMPARED, AuditOptions, ReportOptions
from rota.client.exchange import Retrying
from rota.client.following import Following
from rota.client.place import DEFAULT_TIMEOUT, Place, find_place
from rota.client.schedule_calls import BackfillOptions
from rota.client.sync_wire import SyncSystem, SyncWire, real_system, tell_nobody
from rota.client.task_calls import BulkAction, TaskFilters
from rota.client.waiting import Waiting
from rota.domain.durations import parse_duration
from rota.sdk.control import Duration
from rota.sdk.options import SubmitOptions
from rota.sdk.views import TaskView
from rota.wire.access import AuditEntry, NewToken, Token
from rota.wire.calendar import Calendar, CalendarSummary, PutCalendar
from rota.wire.changes import Change
from rota.wire.cluster import Cluster, Election, Event, Queues, QueueTypes, Settings, Stats, Worker
from rota.wire.config import PutConfig, TaskConfig
from rota.wire.report import Report
from rota.wire.schedule import BackfillItem, Forecast, Occurrence, SchedulePreview
from rota.wire.task import BulkCount, Explanation, LogLine

if TYPE_CHECKING:
    import httpx2

PAGE = 200
LONGEST_RUN = "30d"  # that a backfill waits for before it goes on


@dataclass(frozen=True, slots=True)
class Handle:
    """A submitted task."""

    id: str
    _client: "Client"

    def wait(self, timeout: Duration = "1m") -> TaskView:
        """The task when it has ended, in whatever way; `TimeoutError` when that takes longer."""
        return self._client.tasks.wait(self.id, timeout)

    def get(self) -> TaskView:
        """The task as it is now."""
        return self._client.tasks.get(self.id)

    def cancel(self, reason: str = "") -> TaskView:
        """End it, waiting or running."""
        return self._client.tasks.cancel(self.id, reason=reason)


class Client:
    """A Rota server. Enter it, use it, leave it; or call `close` at the end."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: Duration = DEFAULT_TIMEOUT,
        system: SyncSystem | None = None,
        transport: "httpx2.BaseTransport | None" = None,
    ) -> None:
        """`transport` and `system` (clock and chance) are for tests and for programs with their own connections."""
        place = find_place(url, token, timeout=timeout)
        self._use(SyncWire(place, system or real_system(), transport=transport))

    @classmethod
    def at(cls, place: Place, *, on_retry: Callable[[Retrying], None] = tell_nobody) -> "Client":
        """Of a place that is known in every detail; `on_retry` is told of each call that is tried again."""
        made = cls.__new__(cls)
        made._use(SyncWire(place, real_system(), on_retry=on_retry))
        return made

    def _use(self, wire: SyncWire) -> None:
        self._wire = wire
        self.tasks = Tasks(self, wire)
        self.configs = Configs(self, wire)
        self.schedules = Schedules(self, wire)
        self.calendars = Calendars(wire)
        self.workers = Workers(wire)
        self.tokens = Tokens(wire)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all connections."""
        self._wire.close()

    def submit(self, type: str, payload: Any = None, **options: Unpack[SubmitOptions]) -> Handle:
        """Add a task. Sent again after a failure it is still added once: it carries an idempotency key."""
        return Handle((self._wire.send(task_calls.submit(type, payload, options=options))).id, self)

    def submit_many(
        self,
        type: str,
        payloads: Sequence[Any],
        *,
        progress: Callable[[int, int], None] | None = None,
        **options: Unpack[SubmitOptions],
    ) -> list[Handle]:
        """Add tasks of one type, a thousand at a time, each thousand all or none. `progress(added, all)` is told."""
        handles: list[Handle] = []
        for call in task_calls.submit_many(type, payloads, options=options):
            handles += [Handle(task_id, self) for task_id in (self._wire.send(call)).ids]
            if progress is not None:
                progress(len(handles), len(payloads))
        return handles

    def queues(self) -> Queues:
        """What is ready, by priority."""
        return self._wire.send(cluster_calls.queues())

    def queue_types(self) -> QueueTypes:
        """What waits and runs of each type."""
        return self._wire.send(cluster_calls.queue_types())

    def stats(self) -> Stats:
        """Counts and rates."""
        return self._wire.send(cluster_calls.stats())

    def report(self, **options: Unpack[ReportOptions]) -> Report:
        """What happened in a time, by hour or day and by type."""
        return self._wire.send(cluster_calls.report(options))

    def cluster(self) -> Cluster:
        """The nodes, and who leads."""
        return self._wire.send(cluster_calls.cluster())

    def elections(self, limit: int = 20) -> list[Election]:
        """Who led, from when to when, and how that ended; the newest first."""
        return list((self._wire.send(cluster_calls.elections(limit))).items)

    def settings(self) -> Settings:
        """The settings in force in the node that answers; no secrets."""
        return self._wire.send(cluster_calls.settings())

    def audit(self, *, page_size: int = PAGE, **options: Unpack[AuditOptions]) -> Iterator[AuditEntry]:
        """Who changed what, newest first: all of it, or what the options ask for."""
        return self._wire.pages(lambda cursor: cluster_calls.list_audit(cursor, page_size, options=options))

    def events(
        self,
        after: str | None = None,
        *,
        types: Sequence[str] = (),
        kinds: Sequence[str] = (),
        on_missed: Callable[[], None] | None = None,
    ) -> Iterator[Event]:
        """What happens from now on, or after the event with this id; goes on over broken connections.

        `on_missed` is called where the server no longer knows what came in between: look anew at what matters."""
        call = cluster_calls.events(types, kinds)
        return self._wire.follow(Following(call, self._wire.random, after=after, missed=on_missed or _ignore))


class Tasks:
    """`client.tasks`."""

    def __init__(self, client: Client, wire: SyncWire) -> None:
        self._client = client
        self._wire = wire

    def get(self, task_id: str) -> TaskView:
        """A task by its id."""
        return self._wire.send(task_calls.get(task_id))

    def wait(self, task_id: str, timeout: Duration = "1m") -> TaskView:
        """The task when it has ended; `TimeoutError` when that takes longer."""
        clock = self._wire.clock
        waiting = Waiting(task_id, timeout, now=clock.monotonic())
        while True:
            task = self._wire.send(waiting.ask(clock.monotonic()))
            if waiting.is_over(task, now=clock.monotonic()):
                return task

    def list(self, *, page_size: int = PAGE, full: bool = False, **filters: Unpack[TaskFilters]) -> Iterator[TaskView]:
        """All tasks that match, newest first; pages are fetched as they are needed.

        What is large is left out, and named in `truncated`, unless they are asked for in `full`."""
        return self._wire.pages(task_calls.list_pages(filters, size=page_size, is_full=full))

    def cancel(self, task_id: str, *, reason: str = "") -> TaskView:
        """End a task, waiting or running."""
        return self._wire.send(task_calls.cancel(task_id, reason))

    def retry(self, task_id: str, *, payload: Any = None) -> Handle:
        """Do the work of an ended task again, as a new task; or, of any task, with another payload."""
        return Handle((self._wire.send(task_calls.retry(task_id, payload))).id, self._client)

    def patch(
        self, task_id: str, *, priority: int | str | None = None, scheduled_at: datetime | None = None
    ) -> TaskView:
        """Change how urgent a waiting task is, or when it starts."""
        return self._wire.send(task_calls.patch(task_id, priority=priority, scheduled_at=scheduled_at))

    def logs(self, task_id: str, *, page_size: int = PAGE) -> Iterator[LogLine]:
        """The record of a task: its transitions and its own lines, in order."""
        return self._wire.pages(lambda cursor: task_calls.log_page(task_id, cursor, size=page_size))

    def follow(self, task_id: str, *, after: str | None = None) -> Iterator[LogLine]:
        """The same, then what comes, until the task has ended."""
        call = task_calls.log_stream(task_id)
        return self._wire.follow(Following(call, self._wire.random, after=after, missed=_ignore))

    def explain(self, task_id: str) -> Explanation:
        """Why a task is where it is."""
        return self._wire.send(task_calls.explain(task_id))

    def cancel_all(
        self,
        *,
        reason: str = "",
        progress: Callable[[BulkCount], None] | None = None,
        **filters: Unpack[TaskFilters],
    ) -> BulkCount:
        """End all tasks that match; at least one filter is needed."""
        return self._bulk(task_calls.cancel_all(filters, reason), progress)

    def retry_all(
        self, *, progress: Callable[[BulkCount], None] | None = None, **filters: Unpack[TaskFilters]
    ) -> BulkCount:
        """Do the work of all ended tasks that match again; at least one filter is needed."""
        return self._bulk(task_calls.retry_all(filters), progress)

    def reprioritise_all(
        self,
        to: int | str,
        *,
        progress: Callable[[BulkCount], None] | None = None,
        **filters: Unpack[TaskFilters],
    ) -> BulkCount:
        """Make all tasks that match and wait as urgent as this; at least one filter is needed."""
        return self._bulk(task_calls.reprioritise_all(filters, to), progress)

    def _bulk(self, action: BulkAction, progress: Callable[[BulkCount], None] | None) -> BulkCount:
        while (call := action.next()) is not None:
            action.add(self._wire.send(call))
            if progress is not None:
                progress(action.total)
        return action.total


class Configs:
    """`client.configs`: what types of task there are."""

    def __init__(self, client: Client, wire: SyncWire) -> None:
        self._client = client
        self._wire = wire

    def put(self, type: str, definition: PutConfig | Mapping[str, Any]) -> TaskConfig:
        """Set the whole definition of a type."""
        return self._wire.send(cluster_calls.put_config(type, definition))

    def check(self, type: str, definition: PutConfig | Mapping[str, Any]) -> TaskConfig:
        """Raise what `put` would raise, and change nothing."""
        return self._wire.send(cluster_calls.check_config(type, definition))

    def get(self, type: str) -> TaskConfig:
        """The definition of a type."""
        return self._wire.send(cluster_calls.get_config(type))

    def list(self, *, page_size: int = PAGE) -> Iterator[TaskConfig]:
        """All of them, by name."""
        return self._wire.pages(lambda cursor: cluster_calls.list_configs(cursor, page_size))

    def delete(self, type: str) -> None:
        """Remove a definition; tasks of the type that exist stay."""
        self._wire.send(cluster_calls.delete_config(type))

    def pause(self, type: str) -> TaskConfig:
        """Accept no new tasks of a type."""
        return self._wire.send(cluster_calls.pause_config(type))

    def resume(self, type: str) -> TaskConfig:
        """Accept them again."""
        return self._wire.send(cluster_calls.resume_config(type))

    def revisions(self, type: str, *, limit: int = 20) -> Sequence[TaskConfig]:
        """What a type was defined as, newest first, also if it was deleted since."""
        return (self._wire.send(cluster_calls.list_revisions(type, limit))).items

    def diff(self, type: str, before: int, *, after: int) -> Sequence[Change]:
        """What one revision says differently from another."""
        return cluster_calls.compare(self.revisions(type, limit=MOST_COMPARED), before, after=after)

    def roll_back(self, type: str, revision: int, *, expected_revision: int | None = None) -> TaskConfig:
        """Define a type as it was in an earlier revision; with `expected_revision`, only in place of that one."""
        return self._wire.send(cluster_calls.roll_back_config(type, revision, expected=expected_revision))

    def trigger(self, type: str, payload: Any = None) -> Handle:
        """Run a type now, with its own payload or this one."""
        return Handle((self._wire.send(cluster_calls.trigger_config(type, payload))).id, self._client)


class Schedules:
    """`client.schedules`: when types fire, and what became of it."""

    def __init__(self, client: Client, wire: SyncWire) -> None:
        self._client = client
        self._wire = wire

    def get(self, type: str, *, count: int = 5, after: datetime | None = None) -> SchedulePreview:
        """When the schedule of a type fires: in words, and its targets before and after now, or another moment."""
        return self._wire.send(schedule_calls.preview_config(type, count, after=after))

    def preview(
        self, schedule: Mapping[str, Any] | str, *, type: str = "", count: int = 5, after: datetime | None = None
    ) -> SchedulePreview:
        """The same for what is not stored: `"0 9 * * 1-5"`, or a schedule such as `{"every_seconds": 90}`."""
        return self._wire.send(schedule_calls.preview_schedule(schedule, type, count=count, after=after))

    def pause(self, type: str, *, note: str = "") -> TaskConfig:
        """Let the schedule of a type fire nothing, and say why."""
        return self._wire.send(schedule_calls.pause_schedule(type, note))

    def resume(self, type: str) -> TaskConfig:
        """Let it fire again, whoever paused it."""
        return self._wire.send(schedule_calls.resume_schedule(type))

    def forecast(
        self,
        begin: datetime | None = None,
        end: datetime | None = None,
        *,
        buckets: int = 24,
        types: Sequence[str] = (),
    ) -> Forecast:
        """What would fire from now, or `begin`, within a day, or until `end`, and how much work that is."""
        return self._wire.send(schedule_calls.forecast(begin, end, buckets=buckets, types=types))

    def backfill(
        self,
        type: str,
        begin: datetime,
        *,
        end: datetime,
        concurrency: int = 10,
        **options: Unpack[BackfillOptions],
    ) -> Iterator[BackfillItem]:
        """Make up for the targets of a past time, and say of each what becomes of it.

        So many are begun at once; the next ones when those have ended, however long that takes."""
        body = schedule_calls.begin_backfill(begin, end, concurrency=concurrency, options=options)
        while True:
            page = self._wire.send(schedule_calls.backfill(type, body))
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            for item in page.items:
                if item.task_id is not None and not body.dry_run:
                    self._client.tasks.wait(item.task_id, LONGEST_RUN)
            body = msgspec.structs.replace(body, cursor=page.next_cursor)

    def occurrences(self, type: str, *, limit: int = 50) -> list[Occurrence]:
        """What became of the targets, newest first."""
        return (self._wire.send(schedule_calls.list_occurrences(type, limit))).items


class Calendars:
    """`client.calendars`: what schedules keep to, or keep out of."""

    def __init__(self, wire: SyncWire) -> None:
        self._wire = wire

    def put(self, name: str, definition: PutCalendar | Mapping[str, Any]) -> Calendar:
        """Set the whole calendar, such as `{"country": "CN"}` or `{"dates": ["2026-12-24"]}`."""
        return self._wire.send(schedule_calls.put_calendar(name, definition))

    def get(self, name: str) -> Calendar:
        """A calendar with its days."""
        return self._wire.send(schedule_calls.get_calendar(name))

    def list(self, *, page_size: int = PAGE) -> Iterator[CalendarSummary]:
        """All of them, by name, without their days."""
        return self._wire.pages(lambda cursor: schedule_calls.list_calendars(cursor, page_size))

    def delete(self, name: str) -> None:
        """Remove one that no schedule names."""
        self._wire.send(schedule_calls.delete_calendar(name))


class Workers:
    """`client.workers`."""

    def __init__(self, wire: SyncWire) -> None:
        self._wire = wire

    def list(self, *, page_size: int = PAGE) -> Iterator[Worker]:
        """Those that are there."""
        return self._wire.pages(lambda cursor: cluster_calls.list_workers(cursor, page_size))

    def get(self, worker_id: str) -> Worker:
        """One of them."""
        return self._wire.send(cluster_calls.get_worker(worker_id))

    def drain(self, worker_id: str) -> Worker:
        """Let it finish what it has and take nothing new."""
        return self._wire.send(cluster_calls.steer_worker(worker_id, "drain"))

    def resume(self, worker_id: str) -> Worker:
        """Let it take tasks again."""
        return self._wire.send(cluster_calls.steer_worker(worker_id, "resume"))

    def set_capacity(self, worker_id: str, capacity: int) -> Worker:
        """Change how many tasks it runs at once."""
        return self._wire.send(cluster_calls.set_capacity(worker_id, capacity))


class Tokens:
    """`client.tokens`: who may ask."""

    def __init__(self, wire: SyncWire) -> None:
        self._wire = wire

    def create(self, name: str, role: str = "viewer", *, expires_in: Duration | None = None) -> NewToken:
        """A new token; its secret is shown this once."""
        life = None if expires_in is None else parse_duration("expires_in", expires_in)
        return self._wire.send(cluster_calls.create_token(name, role, expires_in=life))

    def list(self, *, page_size: int = PAGE) -> Iterator[Token]:
        """All tokens of the tenant, without their secrets."""
        return self._wire.pages(lambda cursor: cluster_calls.list_tokens(cursor, page_size))

    def revoke(self, token_id: str) -> None:
        """End a token, within seconds everywhere."""
        self._wire.send(cluster_calls.revoke_token(token_id))


def _ignore() -> None:
    """Nobody asked to be told."""
