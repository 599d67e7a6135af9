"""Calls of `rota.v1.TaskService`, each handed to its operation.

Every method is served as a stream of requests, of which one is read: so a caller is known, allowed and within the rate
before its message takes any room here. On the wire nothing differs from a unary method. An answer that is one message
is returned, so that it goes out in one piece with its status.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import grpc
import grpc.aio
import structlog
from google.protobuf.message import Message

from rota.application import metrics
from rota.domain.access import Principal
from rota.domain.errors import DeniedError, RateLimitedError, RotaError, UnauthenticatedError, UnavailableError
from rota.domain.submission import MAX_KEY_LENGTH
from rota.interfaces.grpc import convert
from rota.interfaces.grpc.errors import status_of, text_of, trailers_of
from rota.interfaces.grpc.methods import METHODS, Method
from rota.interfaces.grpc.request import Context, address_of, find_one, parse, receive, scan
from rota.interfaces.grpc.streaming import follow
from rota.interfaces.http.admission import Admission, read_secret
from rota.interfaces.http.endpoint import MOST_PARSED_AT_ONCE
from rota.interfaces.http.protocol import READ_TIMEOUT
from rota.interfaces.http.state import ServerState
from rota.interfaces.operations.errors import TooLargeError
from rota.interfaces.operations.operation import Call, Reply, Stream

LONGEST_CALL = timedelta(seconds=90)  # longer than any wait that may be asked for

log = structlog.get_logger(__name__)


class TaskService(grpc.GenericRpcHandler):
    """All methods; a name that is not among them is UNIMPLEMENTED."""

    def __init__(self, state: ServerState, admission: Admission) -> None:
        self._state = state
        self._admission = admission
        self._handlers: dict[str, Any] = {path: self._handler(method) for path, method in METHODS.items()}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        return self._handlers.get(handler_call_details.method)

    def _handler(self, method: Method) -> Any:
        make: Any = grpc.stream_stream_rpc_method_handler if method.is_stream else grpc.stream_unary_rpc_method_handler
        return make(self._behaviour(method))

    def _behaviour(self, method: Method) -> Any:
        async def behave(_requests: AsyncIterator[bytes], context: Context) -> bytes | None:
            try:
                return await self._serve(method, context)
            except RotaError as error:
                self._note(error, method, context=context)
                await context.abort(status_of(error), text_of(error), trailers_of(error))
            except grpc.aio.AbortError:
                raise
            except Exception as exc:
                log.exception("grpc.failed", method=method.name, error=str(exc))
                defect = RotaError("internal")
                await context.abort(status_of(defect), text_of(defect), trailers_of(defect))

        return behave

    async def _serve(self, method: Method, context: Context) -> bytes | None:
        found = scan(context)
        secret = read_secret(found.get("authorization", []))
        principal = await self._admission.admit(secret, address_of(context))
        principal.require(method.operation.role)
        node = self._state.services.node
        began, outcome = node.clock.monotonic(), grpc.StatusCode.INTERNAL
        try:
            async with asyncio.timeout(None if method.is_stream else LONGEST_CALL.total_seconds()):
                with self._state.holding() as count:
                    call = await self._read(method, context, principal=principal, count=count)
                    answer = await method.operation.handler(call)
            outcome = grpc.StatusCode.OK
        except RotaError as error:
            outcome = status_of(error)
            raise
        except TimeoutError as exc:
            outcome = grpc.StatusCode.UNAVAILABLE
            problem = f"no answer within {LONGEST_CALL.total_seconds():g} seconds; whether it took effect is unknown"
            raise UnavailableError(problem) from exc
        finally:
            name = method.operation.name
            node.collector.add(metrics.GRPC_REQUESTS, name, outcome.name)
            node.collector.observe(metrics.GRPC_SECONDS, name, value=node.clock.monotonic() - began)
        if isinstance(answer, Stream):
            await self._stream(answer, method, context=context, secret=secret)
            return None
        return self._answer(answer, method, context=context)

    def _answer(self, answer: Reply, method: Method, *, context: Context) -> bytes:
        message = method.response()
        if answer.body is not None:
            convert.write(answer.body, message)
        context.set_trailing_metadata((("rota-status", str(answer.status)),))
        _expect_reader(context)
        return message.SerializeToString()

    async def _stream(self, answer: Stream, method: Method, *, context: Context, secret: str) -> None:
        tokens, stopping = self._state.services.tokens, self._state.stopping
        followed = follow(answer.frames, stopping=stopping, check_token=lambda: tokens.authenticate(secret))
        with self._state.streaming():
            await context.send_initial_metadata(())  # who follows knows that it has begun
            async with aclosing(followed) as frames:
                async for frame in frames:
                    message = method.response()
                    convert.write_frame(frame, message)
                    await _write(message, context)

    async def _read(
        self, method: Method, context: Context, *, principal: Principal, count: Callable[[int], None]
    ) -> Call[Any, Any]:
        operation = method.operation
        raw = await receive(context)
        count(len(raw))
        if len(raw) > operation.most_bytes:
            raise TooLargeError(f"the message has more than {operation.most_bytes} bytes; send less, or split it")
        if len(raw) <= MOST_PARSED_AT_ONCE:
            parsed = parse(raw, method)
        else:
            async with self._state.parsing:
                parsed = await asyncio.to_thread(parse, raw, method)
        return Call(
            services=self._state.services,
            principal=principal,
            query=parsed.query,
            body=parsed.body,
            address=address_of(context),
            path=parsed.path,
            idempotency_key=find_one(scan(context), "idempotency-key", longest=MAX_KEY_LENGTH)
            if operation.takes_key
            else None,
            wants_stream=method.is_stream,
            last_event_id=parsed.after,
            stopping=self._state.stopping,
        )

    def _note(self, error: RotaError, method: Method, *, context: Context) -> None:
        """Who was turned away; those beyond the rate are only counted."""
        if isinstance(error, UnauthenticatedError | DeniedError | RateLimitedError):
            self._state.services.node.collector.add(metrics.HTTP_DENIED, error.code)
        if isinstance(error, UnauthenticatedError | DeniedError):
            log.warning("api.denied", code=error.code, path=method.path, address=address_of(context))
        elif isinstance(error, UnavailableError) and not self._state.stopping.is_set():
            log.warning("api.unavailable", path=method.path, code=error.code, error=str(error))


def _expect_reader(context: Context) -> None:
    """A client that takes nothing for so long has no more claim to its place: the call is dropped, as if the client
    had cancelled. No status can follow a message that is still on its way."""
    loop, call = asyncio.get_running_loop(), asyncio.current_task()

    def drop() -> None:
        log.info("api.client_stalled", address=address_of(context))
        if call is not None:
            call.cancel()

    deadline = loop.call_later(READ_TIMEOUT.total_seconds(), drop)
    context.add_done_callback(lambda _: deadline.cancel())  # type: ignore[arg-type]  # its stub names no function


async def _write(message: Message, context: Context) -> None:
    """Send one message of a stream, for no longer than a client may take."""
    try:
        async with asyncio.timeout(READ_TIMEOUT.total_seconds()):
            await context.write(message.SerializeToString())
    except TimeoutError as exc:
        log.info("api.client_stalled", address=address_of(context))
        raise asyncio.CancelledError from exc
