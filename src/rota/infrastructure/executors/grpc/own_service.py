"""Rota's own protocol, `rota.executor.v1.Executor`: the request of an attempt, and what the answers mean."""

from datetime import datetime

from google.protobuf.message import DecodeError

from rota._proto.executor.v1 import executor_pb2 as pb
from rota.application.ports.executor import Job, LogLevel, Reports
from rota.domain.attempt import Deferred, Failed, Outcome, Snoozed, Succeeded, TaskError, TaskResult
from rota.infrastructure.executors.grpc.outcomes import clamp, refused, span_of

BAD_RESPONSE = "bad_response"
CALLBACKS_OFF = "the service accepted, to call back later, but the worker knows no address for that; set api.public_url"
LEVELS = frozenset(LogLevel)


def write_request(job: Job, *, deadline: datetime) -> bytes:
    """The attempt, as the service gets it."""
    spec = job.task.spec
    request = pb.ExecuteRequest(
        task_id=str(spec.id),
        attempt=job.attempt.number,
        type=spec.type,
        payload_json=spec.payload,
        metadata=spec.metadata,
        idempotency_key=str(spec.id),
        tenant=spec.tenant_id,
        callback_url=job.callback,
    )
    request.deadline.FromDatetime(deadline)
    return request.SerializeToString()


def read_response(raw: bytes, *, callback: str) -> Outcome:
    """The outcome that the service answered with; `callback` is where it was told to call back."""
    try:
        return _outcome(pb.ExecuteResponse.FromString(raw), callback)
    except DecodeError:
        return refused(BAD_RESPONSE, "the answer is no ExecuteResponse of rota.executor.v1")


def _outcome(response: pb.ExecuteResponse, callback: str) -> Outcome:
    match response.WhichOneof("outcome"):
        case "success":
            success = response.success
            return Succeeded(TaskResult(success.code, success.message, data=success.result_json or None))
        case "failure":
            failure = response.failure
            told = TaskError(failure.code or "failed", failure.message, failure.detail, retryable=failure.retryable)
            pause = span_of(failure.retry_after) if failure.HasField("retry_after") else None
            return Failed(told, retry_after=None if pause is None else clamp(pause))
        case "snooze":
            return Snoozed(span_of(response.snooze.delay))
        case "accepted":
            return Deferred() if callback else refused("callbacks_off", CALLBACKS_OFF)
        case _:
            return refused(BAD_RESPONSE, "the answer has no outcome: set success, failure, snooze or accepted")


def read_event(raw: bytes, reports: Reports, *, callback: str) -> Outcome | None:
    """One message of a stream: what it says is passed on, and the last one has the outcome."""
    try:
        event = pb.ExecuteEvent.FromString(raw)
    except DecodeError:
        return refused(BAD_RESPONSE, "a message of the stream is no ExecuteEvent of rota.executor.v1")
    match event.WhichOneof("event"):
        case "progress":
            reports.progress(min(max(event.progress.fraction, 0.0), 1.0), event.progress.message)
        case "log":
            level = LogLevel(event.log.level) if event.log.level in LEVELS else LogLevel.INFO
            reports.log(event.log.message, level=level, detail=event.log.fields_json)
        case "response":
            return _outcome(event.response, callback)
        case _:  # of a later release
            pass
    return None
