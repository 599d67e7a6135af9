"""Runs attempts by calling services over gRPC: those that speak `rota.executor.v1`, or any unary method.

One attempt is one call. Its deadline covers all that belongs to it: finding the addresses, learning what the method
takes, and the call itself. To cancel the attempt is to cancel the call, which the service hears of.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import grpc
import grpc.aio
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from rota.application.ports.executor import Job, Reports
from rota.application.ports.system import Clock
from rota.domain.attempt import Failed, Outcome, Succeeded, TaskError, TaskResult, TimedOut
from rota.domain.checks import MAX_DEPTH
from rota.domain.errors import InvalidError
from rota.domain.task_config import TaskConfig
from rota.infrastructure.executors.deadlines import Deadlines, Watch
from rota.infrastructure.executors.grpc import own_service
from rota.infrastructure.executors.grpc.call import FREE_PREFIX, GrpcCall, parse_call
from rota.infrastructure.executors.grpc.channels import Channels, Link, TlsError
from rota.infrastructure.executors.grpc.descriptors import Method, Methods, UnknownMethodError
from rota.infrastructure.executors.grpc.outcomes import failure_of, refused
from rota.infrastructure.executors.grpc.settings import GrpcSettings
from rota.infrastructure.executors.targets import TargetGuard, TargetRefusedError
from rota.infrastructure.executors.templates import MissingValueError, values_of

MOST_EVENTS = 100_000  # of one stream
MOST_AT_ONCE = 64 * 1024  # bytes; what is larger is converted beside the loop, which has leases to renew
GRAIN = 0.01  # seconds; a deadline nearer than this has come
# Also what the library lets slip where a message nests deeply, or has a type of Google's name and another shape.
UNFIT = (TypeError, ValueError, AttributeError, KeyError, OverflowError, RecursionError)
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")

T = TypeVar("T")
Metadata = Sequence[tuple[str, str]]
Unary = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]  # without serialisers: what comes is read here, or refused
ServerStream = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]


class GrpcExecutor:
    """One for a worker, for all its attempts at once."""

    def __init__(self, clock: Clock, guard: TargetGuard, *, settings: GrpcSettings, methods: Methods) -> None:
        self._clock = clock
        self._guard = guard
        self._settings = settings
        self._methods = methods
        self._deadlines = Deadlines()
        self._channels = Channels(settings)

    async def start(self) -> None:
        """Channels are opened when they are needed."""

    def supports(self, config: TaskConfig) -> bool:
        return config.executor_type == "grpc"

    async def close(self) -> None:
        self._deadlines.close()
        await self._channels.close()

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        try:
            with Watch(self._deadlines, self._left(job)):
                return await self._attempt(job.with_callback(job.callback), reports)
        except TimeoutError:
            return TimedOut()
        except InvalidError as exc:
            return refused("bad_executor_config", str(exc))
        except TargetRefusedError as exc:
            problem = f"{exc.host}:{exc.port} is not a public address, and grpc.allow does not list it"
            return refused("target_refused", problem)
        except OSError as exc:
            host = parse_call(job.config.executor_config).host
            return Failed(TaskError("target_unknown", f"the address of {host} cannot be found: {exc}"))
        except (TlsError, UnknownMethodError) as exc:
            return refused("grpc_not_callable", str(exc))
        except grpc.aio.AioRpcError as error:
            is_late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            if is_late and self._left(job) < GRAIN:
                return TimedOut()
            return failure_of(error, most=self._settings.max_message)

    def _left(self, job: Job) -> float:
        return job.deadline - self._clock.monotonic()

    async def _attempt(self, job: Job, reports: Reports) -> Outcome:
        call = parse_call(job.config.executor_config)
        target = self._channels.find_target(call)
        metadata = self._metadata(call, job, secret={} if target is None else target.secret_metadata)
        addresses = await self._guard.resolve(call.host, call.port)
        async with self._channels.borrow(call, addresses) as link:
            errand = _Errand(job, call, link, metadata, self._settings.max_message)
            if not call.is_own:
                return await self._call_other(errand)
            deadline = self._clock.now() + timedelta(seconds=max(self._left(job), 0.0))
            request = own_service.write_request(job, deadline=deadline)
            if call.is_stream:
                return await errand.follow(request, reports, left=self._left(job))
            answer = await errand.send(request, left=self._left(job))
            return answer if isinstance(answer, Failed) else own_service.read_response(answer, callback=job.callback)

    async def _call_other(self, errand: "_Errand") -> Outcome:
        call = errand.call
        method = await self._methods.find(errand.link, call.authority, service=call.service, method=call.method)
        payload = errand.job.task.spec.payload
        try:
            request = await _beside(len(payload), lambda: _write_request(errand, method))
        except InvalidError as exc:
            return refused("bad_payload", str(exc))
        answer = await errand.send(request, left=self._left(errand.job))
        return (
            answer if isinstance(answer, Failed) else await _beside(len(answer), lambda: _read_answer(answer, method))
        )

    def _metadata(self, call: GrpcCall, job: Job, *, secret: Mapping[str, str]) -> Metadata:
        for key, _ in call.metadata:
            if not key.startswith(FREE_PREFIX) and key not in self._settings.metadata:
                raise InvalidError(f"executor.metadata.{key}", "is not x-…, and the setting grpc.metadata lacks it")
        spec = job.task.spec
        own = [
            ("rota-task-id", str(spec.id)),
            ("rota-attempt", str(job.attempt.number)),
            ("idempotency-key", str(spec.id)),
        ]
        trace = spec.metadata.get("traceparent", "")
        given = [(key, text) for key, text in call.metadata if key not in secret]
        return [*own, *([("traceparent", trace)] if _TRACE.fullmatch(trace) else []), *given, *secret.items()]


@dataclass(frozen=True, slots=True)
class _Errand:
    """One call to be made."""

    job: Job
    call: GrpcCall
    link: Link
    metadata: Metadata
    most: int  # bytes of a message

    async def send(self, request: bytes, *, left: float) -> bytes | Failed:
        """The answer of a unary method, unread."""
        if len(request) > self.most:
            return self._too_large(request)
        method: Unary = self.link.channel.unary_unary(self.call.path)
        answer = await method(request, timeout=left, metadata=self.metadata)
        if not isinstance(answer, bytes):  # the status is OK, but nothing came before it
            return refused(own_service.BAD_RESPONSE, "the call ended well, and without an answer")
        return answer

    async def follow(self, request: bytes, reports: Reports, *, left: float) -> Outcome:
        """The outcome at the end of a stream; what comes before it is passed on."""
        if len(request) > self.most:
            return self._too_large(request)
        method: ServerStream = self.link.channel.unary_stream(self.call.path)
        events = method(request, timeout=left, metadata=self.metadata)
        try:
            number = 0
            async for event in events:
                outcome = own_service.read_event(event, reports, callback=self.job.callback)
                number += 1
                if outcome is not None:
                    return outcome
                if number >= MOST_EVENTS:
                    return refused(own_service.BAD_RESPONSE, f"the stream has more than {MOST_EVENTS} messages")
        finally:
            events.cancel()
        return refused(own_service.BAD_RESPONSE, "the stream ended without an outcome")

    def _too_large(self, request: bytes) -> Failed:
        return refused("request_too_large", f"the request has {len(request)} bytes; grpc.max_message is {self.most}")


async def _beside(size: int, convert: Callable[[], T]) -> T:
    return convert() if size <= MOST_AT_ONCE else await asyncio.to_thread(convert)


def _write_request(errand: _Errand, method: Method) -> bytes:
    """The request in JSON, as what the method takes. `InvalidError` when it does not fit."""
    job, template = errand.job, errand.call.request
    try:
        filled = json.loads(job.task.spec.payload) if template is None else template(values_of(job))
    except MissingValueError as exc:
        raise InvalidError("payload", f"lacks what the config asks for: {exc}") from exc
    if not isinstance(filled, dict):
        raise InvalidError("payload", "must be an object with the fields of the request")
    try:
        made = json_format.ParseDict(
            filled, method.request(), descriptor_pool=method.pool, max_recursion_depth=MAX_DEPTH
        )
    except (json_format.ParseError, *UNFIT) as exc:
        raise InvalidError("payload", f"is no {method.request.DESCRIPTOR.full_name}: {exc}") from exc
    return made.SerializeToString()


def _read_answer(raw: bytes, method: Method) -> Outcome:
    try:
        answer = method.response.FromString(raw)
        told = json_format.MessageToDict(answer, preserving_proto_field_name=True, descriptor_pool=method.pool)
        return Succeeded(TaskResult(data=json.dumps(told, ensure_ascii=False, allow_nan=False)))
    except (DecodeError, json_format.SerializeToJsonError, *UNFIT) as exc:
        problem = f"the answer cannot be read as {method.response.DESCRIPTOR.full_name}: {exc}"
        return refused(own_service.BAD_RESPONSE, problem)
