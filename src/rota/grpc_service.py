"""For services that Rota calls over gRPC: the base class of an executor service (`pip install 'rota[grpc]'`).

    class Images(rota.grpc_service.ExecutorService):
        async def execute(self, request: Request) -> object:
            await request.progress(0.5, "half way")
            return {"width": request.payload["width"]}

    server = grpc.aio.server()
    Images().add_to(server)

What `execute` returns is the result. `rota.Retry`, `rota.Fail` and `rota.Snooze` end the attempt as in any other task;
another exception is a failure that may be tried again. `Accepted()` as the result says that it ends later, by a
callback. When the deadline is over, or the task is cancelled, `execute` is cancelled.
"""

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from rota.domain.checks import MAX_MESSAGE
from rota.sdk.control import Fail, Retry, Snooze

try:
    import grpc
    import grpc.aio
    from google.protobuf.duration_pb2 import Duration

    from rota._proto.executor.v1 import executor_pb2 as pb
except ModuleNotFoundError as exc:
    problem = f"the package {exc.name} is not installed (with a wheel: pip install 'FILE.whl[grpc]')"
    raise ImportError(f"{problem}; try: pip install 'rota[grpc]'") from exc

SERVICE = "rota.executor.v1.Executor"
MOST_WAITING = 1000  # events that a caller has not read yet; more are dropped
log = logging.getLogger(__name__)


class Accepted:
    """Returned by `execute`: the work goes on, and the service says how it ended.

    By a POST to `request.callback_url` with `:complete` or `:fail` appended.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One attempt."""

    task_id: str
    attempt: int
    type: str
    payload: Any
    metadata: Mapping[str, str]
    idempotency_key: str  # equal for all attempts of the task
    tenant: str
    callback_url: str  # empty: there is none, and nothing can be accepted
    seconds_left: float | None  # when the call came in; None: no deadline
    _events: "asyncio.Queue[pb.ExecuteEvent] | None" = field(default=None, repr=False)

    async def progress(self, fraction: float, message: str = "") -> None:
        """Say how far it got, 0 to 1. Heard where the task config has `streaming: true`."""
        self._tell(pb.ExecuteEvent(progress=pb.Progress(fraction=fraction, message=message)))

    async def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """Add a line to the record of the task, with the same condition."""
        line = pb.LogLine(level=level, message=message, fields_json=json.dumps(fields, default=str) if fields else "")
        self._tell(pb.ExecuteEvent(log=line))

    def _tell(self, event: "pb.ExecuteEvent") -> None:
        if self._events is not None and self._events.qsize() < MOST_WAITING:
            self._events.put_nowait(event)


class ExecutorService:
    """Implement `execute`. With a `secret`, calls must bring it as the metadata `x-rota-secret`.

    Workers send it by `secret_metadata` of a target in their setting `grpc.targets`.
    """

    def __init__(self, *, secret: str | None = None) -> None:
        if secret is not None and not secret.strip():  # everybody would bring it
            raise ValueError("secret is empty; give one, or None to let everybody in")
        self._secret = secret

    async def execute(self, request: Request) -> Any:
        """Do the work. The value returned is the result, as JSON."""
        raise NotImplementedError

    def add_to(self, server: "grpc.aio.Server") -> None:
        """Serve both methods of the protocol."""
        unary = grpc.unary_unary_rpc_method_handler(
            self._execute, pb.ExecuteRequest.FromString, pb.ExecuteResponse.SerializeToString
        )
        stream = grpc.unary_stream_rpc_method_handler(
            self._execute_stream, pb.ExecuteRequest.FromString, pb.ExecuteEvent.SerializeToString
        )
        methods = {"Execute": unary, "ExecuteStream": stream}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))

    async def _execute(self, message: "pb.ExecuteRequest", context: Any) -> "pb.ExecuteResponse":
        await self._verify(context)
        return await self._run(_request(message, context))

    async def _execute_stream(self, message: "pb.ExecuteRequest", context: Any) -> AsyncIterator["pb.ExecuteEvent"]:
        await self._verify(context)
        events: asyncio.Queue[pb.ExecuteEvent] = asyncio.Queue()
        running = asyncio.create_task(self._run(_request(message, context, events=events)))
        try:
            while not running.done() or not events.empty():
                upcoming = asyncio.ensure_future(events.get())
                try:
                    await asyncio.wait({upcoming, running}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    is_there = upcoming.done()
                    upcoming.cancel()
                if is_there:
                    yield upcoming.result()
            yield pb.ExecuteEvent(response=await running)
        finally:
            running.cancel()

    async def _verify(self, context: Any) -> None:
        given = dict(context.invocation_metadata() or ()).get("x-rota-secret", "")
        if self._secret is not None and not hmac.compare_digest(given.encode(), self._secret.encode()):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "x-rota-secret is missing or wrong")

    async def _run(self, request: Request) -> "pb.ExecuteResponse":
        try:
            result = await self.execute(request)
            if isinstance(result, Accepted):
                return pb.ExecuteResponse(accepted=pb.Accepted())
            return pb.ExecuteResponse(success=pb.Success(result_json="" if result is None else json.dumps(result)))
        except Snooze as snooze:
            return pb.ExecuteResponse(snooze=pb.Snooze(delay=_span(snooze.delay)))
        except Retry as retry:
            pause = None if retry.after is None else _span(retry.after)
            return _failure("retry", str(retry), retryable=True, retry_after=pause)
        except Fail as fail:
            return _failure("failed", str(fail), retryable=False)
        except Exception as exc:  # whatever the code of users does
            log.exception("attempt %s of task %s failed", request.attempt, request.task_id)
            return _failure(type(exc).__name__, str(exc), retryable=True)


def _request(
    message: "pb.ExecuteRequest", context: Any, *, events: "asyncio.Queue[pb.ExecuteEvent] | None" = None
) -> Request:
    return Request(
        task_id=message.task_id,
        attempt=message.attempt,
        type=message.type,
        payload=json.loads(message.payload_json or "null"),
        metadata=dict(message.metadata),
        idempotency_key=message.idempotency_key,
        tenant=message.tenant,
        callback_url=message.callback_url,
        seconds_left=context.time_remaining(),
        _events=events,
    )


def _failure(
    code: str, message: str, *, retryable: bool, retry_after: "Duration | None" = None
) -> "pb.ExecuteResponse":
    failure = pb.Failure(code=code, message=message[:MAX_MESSAGE], retryable=retryable, retry_after=retry_after)
    return pb.ExecuteResponse(failure=failure)


def _span(delay: timedelta) -> "Duration":
    made = Duration()
    made.FromTimedelta(delay)
    return made
