"""Whatever a server does, the attempt ends as documented, by its deadline, after one call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from rota._proto.executor.v1 import executor_pb2 as pb
from rota.domain.attempt import Failed, TimedOut
from rota.infrastructure.executors.grpc import executor as executor_module
from rota.infrastructure.system import SystemClock
from tests.support import hostile_grpc as hostile
from tests.support.grpc_jobs import (
    EXECUTE,
    STREAM,
    Answer,
    Context,
    Service,
    a_grpc_executor,
    a_grpc_job,
    a_grpc_server,
    abort_with,
    hang,
)
from tests.support.local_jobs import Recorder

SOON = 0.7  # seconds until the deadline of an attempt whose server does not answer
LATE = 1.0  # how long after its deadline an attempt may end; more on a machine that has much else to do
PROGRESS = pb.ExecuteEvent(progress=pb.Progress(fraction=0.1)).SerializeToString()

UNREACHED = [  # what happens below gRPC: the behaviour, the code it ends with (None: a timeout), and the calls it saw
    ("says nothing", hostile.say_nothing, None, 0),
    ("hangs", hostile.hang, None, 1),
    ("hangs up", hostile.hang_up, "grpc_unavailable", 1),
    ("hangs up at once", hostile.hang_up_at_once, "grpc_unavailable", 0),
    ("goes away, the call not begun", hostile.go_away(hostile.NO_ERROR, last=0), "grpc_unavailable", 1),
    ("goes away with an error", hostile.go_away(hostile.INTERNAL_ERROR, last=1), "grpc_unavailable", 1),
    ("resets the call", hostile.reset(hostile.INTERNAL_ERROR), "grpc_internal", 1),
    ("refuses the call", hostile.reset(hostile.REFUSED_STREAM), "grpc_unavailable", 1),
    ("speaks HTTP/1", hostile.speak_http_1, "grpc_unavailable", 0),
    ("speaks nonsense", hostile.speak_nonsense, "grpc_internal", 1),
    ("answers without headers", hostile.answer_without_headers, "grpc_unknown", 1),
]


async def ended(executor: Any, address: str, **config: Any) -> Any:
    clock = SystemClock()
    began = clock.monotonic()
    outcome = await executor.execute(a_grpc_job(address, left=SOON, **config), Recorder())
    assert clock.monotonic() - began < SOON + 3 * LATE
    return outcome


@pytest.mark.parametrize(
    ("behave", "code", "calls"), [case[1:] for case in UNREACHED], ids=[case[0] for case in UNREACHED]
)
async def test_a_server_that_breaks_the_protocol_costs_one_attempt(
    behave: hostile.Behaviour, code: str | None, calls: int
) -> None:
    async with hostile.a_hostile_server(behave) as (address, seen), a_grpc_executor() as executor:
        outcome = await ended(executor, address)
    if code is None:
        assert isinstance(outcome, TimedOut)
    else:
        assert isinstance(outcome, Failed), outcome
        assert (outcome.error.code, outcome.error.retryable) == (code, True)
    assert len(seen) == calls


async def answer_garbage(raw: bytes, context: Context) -> bytes:
    return b"\xff\xff\xff"


async def answer_too_much(raw: bytes, context: Context) -> bytes:
    return bytes(1_000_000)


async def answer_nothing(raw: bytes, context: Context) -> None:
    return None


ODD: list[tuple[str, Answer, str | None, bool]] = [
    ("hangs", hang, None, True),
    ("garbage", answer_garbage, "bad_response", False),
    ("too much", answer_too_much, "grpc_resource_exhausted", True),
    ("a megabyte of details", abort_with(grpc.StatusCode.ABORTED, "x" * 1_000_000), "grpc_resource_exhausted", True),
    ("no answer and no error", answer_nothing, "bad_response", False),
]


@pytest.mark.parametrize(("answer", "code", "retryable"), [case[1:] for case in ODD], ids=[case[0] for case in ODD])
async def test_an_odd_answer_has_its_outcome(answer: Answer, code: str | None, retryable: bool) -> None:
    service = Service({EXECUTE: answer})
    async with a_grpc_server(service) as address, a_grpc_executor(max_message=100_000) as executor:
        outcome = await ended(executor, address)
    if code is None:
        assert isinstance(outcome, TimedOut)
    else:
        assert isinstance(outcome, Failed), outcome
        assert (outcome.error.code, outcome.error.retryable) == (code, retryable)
    assert len(service.calls) == 1


async def test_another_service_is_final() -> None:
    async with a_grpc_server() as address, a_grpc_executor() as executor:
        outcome = await ended(executor, address)
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("grpc_unimplemented", False)


@asynccontextmanager
async def a_stream(answer: Answer) -> AsyncIterator[tuple[Any, str, Service]]:
    service = Service({STREAM: answer})
    async with a_grpc_server(service) as address, a_grpc_executor() as executor:
        yield executor, address, service


async def test_a_stream_that_falls_silent_ends_at_its_deadline() -> None:
    async def answer(raw: bytes, context: Context) -> None:
        await context.write(PROGRESS)
        await hang(raw, context)

    async with a_stream(answer) as (executor, address, service):
        assert isinstance(await ended(executor, address, streaming=True), TimedOut)
    assert len(service.calls) == 1


async def test_a_stream_without_end_ends_at_its_deadline() -> None:
    async def answer(raw: bytes, context: Context) -> None:
        while True:
            await context.write(PROGRESS)

    async with a_stream(answer) as (executor, address, service):
        assert isinstance(await ended(executor, address, streaming=True), TimedOut)
    assert len(service.calls) == 1


async def test_a_stream_has_so_many_messages_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_module, "MOST_EVENTS", 10)
    gone = asyncio.Event()

    async def answer(raw: bytes, context: Context) -> None:
        try:
            while True:
                await context.write(PROGRESS)
        finally:
            gone.set()

    async with a_stream(answer) as (executor, address, _):
        outcome = await executor.execute(a_grpc_job(address, streaming=True), Recorder())
        await gone.wait()
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("bad_response", False)


@pytest.mark.parametrize("raw", [b"\xff\xff", None], ids=["garbage", "nothing"])
async def test_a_stream_without_an_outcome_is_final(raw: bytes | None) -> None:
    async def answer(_: bytes, context: Context) -> bytes | None:
        return raw

    async with a_stream(answer) as (executor, address, _):
        outcome = await ended(executor, address, streaming=True)
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("bad_response", False)
