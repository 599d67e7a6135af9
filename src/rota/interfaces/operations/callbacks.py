"""What whoever works on an attempt outside says of it: by the link that the attempt came with, or by a token."""

from typing import Any

from rota.application.audit import Actor
from rota.application.callbacks import LONGEST_LEASE, SHORTEST_LEASE
from rota.domain import task as domain
from rota.domain.access import Role
from rota.domain.attempt import MAX_CODE, Failed, Succeeded, TaskError, TaskResult
from rota.domain.callback import AttemptKey
from rota.domain.checks import MAX_MESSAGE, MAX_RESULT_BYTES, check_text, to_json
from rota.domain.errors import InvalidError
from rota.interfaces.operations import read, render
from rota.interfaces.operations.operation import Call, NoQuery, Operation, Reply
from rota.wire import callback as wire
from rota.wire.task import Task

MOST_BYTES = 4 * MAX_RESULT_BYTES  # the data as its sender spells it: a character may be written in six
ERRORS = ("task_not_found", "stale_attempt", "conflict")


async def complete_attempt(call: Call[NoQuery, wire.CompleteAttempt]) -> Reply:
    body = call.body
    data = None if body.data is None else to_json("data", body.data, most_bytes=MAX_RESULT_BYTES)
    message = check_text("message", body.message, longest=MAX_MESSAGE)
    done = Succeeded(TaskResult(message=message, data=data))
    task = await call.services.callbacks.complete(_attempt(call), done, actor=_actor(call))
    return _reply(call, task)


async def fail_attempt(call: Call[NoQuery, wire.FailAttempt]) -> Reply:
    body = call.body
    error = TaskError(
        check_text("code", body.code or "failed", longest=MAX_CODE),
        check_text("message", body.message, longest=MAX_MESSAGE),
        retryable=body.retryable,
    )
    failed = Failed(error, read.optional_seconds("retry_after_seconds", body.retry_after_seconds))
    task = await call.services.callbacks.fail(_attempt(call), failed, actor=_actor(call))
    return _reply(call, task)


async def heartbeat_attempt(call: Call[NoQuery, wire.AttemptHeartbeat]) -> Reply:
    lease = read.seconds("lease_seconds", call.body.lease_seconds)
    if not SHORTEST_LEASE <= lease <= LONGEST_LEASE:
        bounds = f"{SHORTEST_LEASE.total_seconds():g} to {LONGEST_LEASE.total_seconds():g}"
        raise InvalidError("lease_seconds", f"must be a number of seconds from {bounds}")
    task = await call.services.callbacks.heartbeat(_attempt(call), lease=lease)
    return _reply(call, task)


async def progress_attempt(call: Call[NoQuery, wire.AttemptProgress]) -> Reply:
    if not 0.0 <= call.body.fraction <= 1.0:
        raise InvalidError("fraction", "must be a number from 0 to 1")
    message = check_text("message", call.body.message, longest=MAX_MESSAGE)
    attempt = _attempt(call)
    task = await call.services.callbacks.progress(attempt, fraction=call.body.fraction, message=message)
    return _reply(call, task)


def _reply(call: Call[Any, Any], task: domain.Task) -> Reply:
    """Who has no more than a link was told of the task what its service may know, and is told nothing else."""
    return Reply(200, render.attempt_state(task) if call.principal.is_link else render.task_answer(task))


def _attempt(call: Call[Any, Any]) -> AttemptKey:
    """The attempt of the path. What follows its number is the proof, which has been looked at, or is not needed."""
    number = call.path["attempt"].partition(".")[0]
    if not number.isascii() or not number.isdigit() or len(number) > 9 or not int(number):
        raise InvalidError("attempt", "must be the number of an attempt, or what the link of one has in its place")
    return AttemptKey(call.tenant_id, call.task_id, int(number))


def _actor(call: Call[Any, Any]) -> Actor | None:
    """Whoever has a token acts in their own name. Who was given the attempt ends it as a worker would."""
    return None if call.principal.is_link else call.actor


def _operation(verb: str, summary: str, **more: Any) -> Operation:
    return Operation(
        name=f"{verb}_attempt",
        method="POST",
        path=f"/tasks/{{id}}/attempts/{{attempt}}:{verb}",
        summary=summary,
        role=Role.OPERATOR,
        answers={200: Task},
        to_link=wire.AttemptState,
        errors=ERRORS,
        most_bytes=MOST_BYTES,
        **more,
    )


OPERATIONS = (
    _operation(
        "complete",
        "Say that an attempt has succeeded; the same again changes nothing.",
        handler=complete_attempt,
        body=wire.CompleteAttempt,
        needs_body=False,
    ),
    _operation(
        "fail",
        "Say that an attempt has failed; the retry policy decides what follows.",
        handler=fail_attempt,
        body=wire.FailAttempt,
        needs_body=False,
    ),
    _operation(
        "heartbeat",
        "Say that a deferred attempt is worked on; without the next one in time it ends as timed out.",
        handler=heartbeat_attempt,
        body=wire.AttemptHeartbeat,
        needs_body=False,
    ),
    _operation(
        "progress",
        "Say how far an attempt got.",
        handler=progress_attempt,
        body=wire.AttemptProgress,
    ),
)
