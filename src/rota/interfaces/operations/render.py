"""From what the use cases answer to the JSON of the API: the one place where both are known."""

from collections.abc import Sequence

import msgspec

from rota.application import backlog, explain, figures, schedules
from rota.application.ports.store import WorkerRecord
from rota.domain import access as domain_access
from rota.domain import audit as domain_audit
from rota.domain import events, log
from rota.domain import schedule as domain_schedule
from rota.domain import task as domain
from rota.domain import task_config as domain_config
from rota.domain.attempt import TaskError, TaskResult
from rota.domain.declaration import executor_settings
from rota.domain.ids import TenantId
from rota.domain.past_reign import PastReign
from rota.domain.schedule_form import schedule_to
from rota.domain.setting import Setting
from rota.domain.task import PROCESSING, RETRYING
from rota.wire import access, callback, cluster, config, schedule, task

MOST_IN_LIST = 2048  # bytes of a payload or a result, characters of a traceback


def text_id(value: int | None) -> str | None:
    """An id on the wire; JavaScript would round a number of this size."""
    return None if value is None else str(value)


def attempt_state(found: domain.Task) -> callback.AttemptState:
    state = found.state
    deadline = found.attempt_until if state.status is PROCESSING else None
    return callback.AttemptState(id=str(found.id), status=state.status, attempt=state.attempt, deadline=deadline)


def task_answer(found: domain.Task, progress: log.Progress | None = None) -> task.Task:
    spec, state = found.spec, found.state
    return task.Task(
        id=str(spec.id),
        tenant=spec.tenant_id,
        type=spec.type,
        name=spec.name,
        status=state.status,
        priority=state.priority,
        payload=_raw(spec.payload),
        metadata=spec.metadata,
        attempt=state.attempt,
        retry_count=state.retry_count,
        max_retries=spec.retry.max_retries,
        timeout_seconds=spec.timeout.total_seconds(),
        worker_id=text_id(state.worker_id),
        scheduled_at=found.scheduled_at,
        created_at=spec.created_at,
        started_at=state.started_at,
        completed_at=state.completed_at,
        next_attempt_at=state.due_at if state.status is RETRYING else None,
        result=_result(found.result),
        error=_error(found.error),
        rerun_of=text_id(spec.rerun_of),
        progress=_progress(progress),
    )


def task_summary(found: domain.Task) -> task.Task:
    """The same with what is large left out or cut short: a list of it stays small whatever was submitted."""
    answer = task_answer(found)
    if len(answer.payload) > MOST_IN_LIST:
        answer.payload = None
        answer.truncated.append("payload")
    if answer.result is not None and answer.result.data is not None and len(answer.result.data) > MOST_IN_LIST:
        answer.result.data = None
        answer.truncated.append("result.data")
    if answer.error is not None and len(answer.error.detail) > MOST_IN_LIST:
        answer.error.detail = f"{answer.error.detail[:MOST_IN_LIST]}…"
        answer.truncated.append("error.detail")
    return answer


def _result(result: TaskResult | None) -> task.TaskResult | None:
    if result is None:
        return None
    data = None if result.data is None else _raw(result.data)
    return task.TaskResult(code=result.code, message=result.message, data=data)


def _error(error: TaskError | None) -> task.TaskError | None:
    if error is None:
        return None
    return task.TaskError(code=error.code, message=error.message, detail=error.detail, retryable=error.retryable)


def _progress(progress: log.Progress | None) -> task.Progress | None:
    return None if progress is None else task.Progress(fraction=progress.fraction, message=progress.message)


def _raw(text: str) -> msgspec.Raw:
    """JSON text as it is: reading it only to write it again would be for nothing."""
    return msgspec.Raw(text.encode())


def log_line(entry: log.LogEntry) -> task.LogLine:
    return task.LogLine(
        seq=str(entry.seq),
        kind=entry.kind,
        at=entry.at,
        from_status=entry.from_status,
        to_status=entry.to_status,
        attempt=entry.attempt,
        worker_id=text_id(entry.worker_id),
        message=entry.message,
        detail=entry.detail,
    )


def explanation(found: explain.Explanation) -> task.Explanation:
    return task.Explanation(
        task_id=str(found.task_id),
        status=found.status,
        reason=found.reason,
        sentence=found.sentence,
        due_at=found.due_at,
        attempt=found.attempt,
        worker_id=text_id(found.worker_id),
        workers=found.workers,
        room=found.room,
        running=found.running,
        max_concurrent=found.max_concurrent,
        rate_per_second=found.rate_per_second,
        global_rate=found.global_rate,
        ready=found.ready,
        executor=found.executor,
        module=found.module,
        overlap=found.overlap,
        keeps_firing=found.keeps_firing,
        error_code=found.error_code,
        error_message=found.error_message,
        draining=found.draining,
    )


def config_answer(found: domain_config.TaskConfig) -> config.TaskConfig:
    settings = executor_settings(found)
    return config.TaskConfig(
        type=found.type,
        tenant=found.tenant_id,
        name=found.name,
        description=found.description,
        executor={"type": found.executor_type, **(settings if isinstance(settings, dict) else {})},
        timeout_seconds=found.timeout.total_seconds(),
        retry=task.Retry.of(found.retry),
        priority=found.priority,
        max_concurrent=found.max_concurrent,
        rate_per_second=found.rate_per_second,
        payload=_raw(found.payload),
        schedule=None if found.schedule is None else schedule_to(found.schedule),
        source=found.source,
        next_fire_at=found.next_fire_at if found.can_fire else None,
        enabled=found.is_enabled,
        revision=found.revision,
        created_at=found.created_at,
        updated_at=found.updated_at,
        updated_by=found.updated_by,
    )


def preview_answer(found: schedules.Preview) -> schedule.SchedulePreview:
    return schedule.SchedulePreview(
        type=found.type,
        schedule=schedule_to(found.schedule),
        in_english=found.in_english,
        in_chinese=found.in_chinese,
        upcoming=list(found.upcoming),
        recent=list(found.recent),
        effects=[
            schedule.CalendarEffect(fire_at=one.fire_at, effect=one.kind, detail=one.detail, moved_from=one.moved_from)
            for one in found.effects
        ],
        next_fire_at=found.next_fire_at,
        runs=found.runs,
        state=found.state,
    )


def occurrence_answer(found: domain_schedule.Occurrence) -> schedule.Occurrence:
    return schedule.Occurrence(
        type=found.task_type,
        fire_at=found.fire_at,
        status=found.status,
        task_id=text_id(found.task_id),
        reason=found.reason,
        since=found.since,
    )


def worker_answer(record: WorkerRecord, *, is_alive: bool) -> cluster.Worker:
    worker = record.worker
    return cluster.Worker(
        id=str(worker.id),
        name=worker.name,
        address=worker.address,
        capacity=worker.capacity,
        load=worker.load,
        types=sorted(worker.types),
        weight=worker.weight,
        labels=worker.labels,
        draining=worker.is_draining,
        alive=is_alive,
        registered_at=record.registered_at,
        seen_at=record.seen_at,
        retired_at=record.retired_at,
    )


def event_answer(event_id: str, event: events.Event) -> cluster.Event:
    return cluster.Event(
        id=event_id,
        kind=event.kind,
        at=event.at,
        task_id=text_id(event.task_id),
        task_type=event.task_type,
        status=event.status,
        attempt=event.attempt,
        worker_id=text_id(event.worker_id),
        progress=_progress(event.progress),
    )


def token_answer(token: domain_access.AccessToken) -> access.Token:
    return access.Token(
        id=token.id,
        name=token.name,
        role=token.role,
        tenant=token.tenant_id,
        created_at=token.created_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        last_used_at=token.last_used_at,
    )


def audit_answer(entry: domain_audit.AuditEntry) -> access.AuditEntry:
    return access.AuditEntry(
        id=str(entry.id),
        at=entry.at,
        actor=entry.actor,
        token_id=entry.token_id or None,
        action=entry.action,
        object=entry.object,
        address=entry.address,
        detail=entry.detail,
    )


def queues_answer(found: figures.QueueFigures) -> cluster.Queues:
    items = [
        cluster.Queue(priority=level.priority, ready=level.ready, oldest_age_seconds=level.oldest_age_seconds)
        for level in found.items
    ]
    return cluster.Queues(items=items, delayed=found.delayed, assigned=found.assigned, running=found.running)


def queue_types_answer(found: backlog.Backlog, tenant_id: TenantId) -> cluster.QueueTypes:
    items = [
        cluster.QueueType(
            type=one.type,
            ready=one.ready,
            delayed=one.delayed,
            blocked=one.blocked,
            running=one.running,
            oldest_age_seconds=one.oldest_age_seconds,
        )
        for one in found.types.get(tenant_id, ())
    ]
    return cluster.QueueTypes(items=items, complete=found.is_complete, set_aside=found.set_aside)


def stats_answer(found: figures.TaskFigures) -> cluster.Stats:
    return cluster.Stats(
        tasks=found.tasks,
        created_per_second=found.created_per_second,
        completed_per_second=found.completed_per_second,
        failed_per_second=found.failed_per_second,
        window_seconds=found.window_seconds,
    )


def cluster_answer(found: figures.ClusterFigures) -> cluster.Cluster:
    return cluster.Cluster(
        leader=found.leader,
        term=found.term,
        nodes=[_node(node) for node in found.nodes],
        store=found.store,
        coordinator=found.coordinator,
        version=found.version,
        now=found.now,
        store_seconds=found.store_seconds,
        coordinator_seconds=found.coordinator_seconds,
        coordinator_answers=found.coordinator_seconds is not None,
    )


def election_answer(reign: PastReign) -> cluster.Election:
    return cluster.Election(
        term=reign.term,
        node=reign.node_id,
        begun_at=reign.begun_at,
        ended_at=reign.ended_at,
        ending=reign.ending,
        reason=reign.reason,
    )


def settings_answer(found: Sequence[Setting], node: str) -> cluster.Settings:
    items = [
        cluster.Setting(
            key=one.key,
            value=one.value,
            default=one.default,
            source=one.source,
            origin=one.origin,
            live=one.is_live,
            restart_needed=one.is_waiting,
            text=one.text,
        )
        for one in found
    ]
    return cluster.Settings(node=node, items=items)


def _node(node: figures.NodeFigures) -> cluster.Node:
    return cluster.Node(
        id=node.id, roles=list(node.roles), is_leader=node.is_leader, version=node.version, seen_at=node.seen_at
    )
