"""Whatever a server does, the attempt ends as documented, by its deadline, after one call."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2, descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2

from rota._proto.executor.v1 import executor_pb2 as pb
from rota.domain.attempt import Failed, Succeeded, TimedOut
from rota.infrastructure.executors.grpc import descriptors
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
    a_shop,
    abort_with,
    hang,
)
from tests.support.local_jobs import Recorder

SOON = 1.5  # seconds until the deadline of an attempt whose server does not answer, once it was reached
LONG = 20.0  # until the deadline of any other
LATE = 5.0  # seconds after its deadline by which every attempt must have ended
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


async def ended(executor: Any, address: str, *, left: float = LONG, **config: Any) -> Any:
    clock = SystemClock()
    began = clock.monotonic()
    outcome = await executor.execute(a_grpc_job(address, left=left, **config), Recorder())
    assert clock.monotonic() - began < left + LATE
    return outcome


@pytest.mark.parametrize(
    ("behave", "code", "calls"), [case[1:] for case in UNREACHED], ids=[case[0] for case in UNREACHED]
)
async def test_a_server_that_breaks_the_protocol_costs_one_attempt(
    behave: hostile.Behaviour, code: str | None, calls: int
) -> None:
    async with hostile.a_hostile_server(behave) as (address, seen), a_grpc_executor() as executor:
        outcome = await ended(executor, address, left=SOON if code is None else LONG)
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
    ("too much", answer_too_much, "response_too_large", False),
    ("a megabyte of details", abort_with(grpc.StatusCode.ABORTED, "x" * 1_000_000), "grpc_resource_exhausted", True),
    ("no answer and no error", answer_nothing, "bad_response", False),
]


@pytest.mark.parametrize(("answer", "code", "retryable"), [case[1:] for case in ODD], ids=[case[0] for case in ODD])
async def test_an_odd_answer_has_its_outcome(answer: Answer, code: str | None, retryable: bool) -> None:
    service = Service({EXECUTE: answer})
    async with a_grpc_server(service) as address, a_grpc_executor(max_message=100_000) as executor:
        outcome = await ended(executor, address, left=SOON if code is None else LONG)
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
        assert isinstance(await ended(executor, address, left=SOON, streaming=True), TimedOut)
    assert len(service.calls) == 1


async def test_a_stream_without_end_ends_at_its_deadline() -> None:
    async def answer(raw: bytes, context: Context) -> None:
        while True:
            await context.write(PROGRESS)

    async with a_stream(answer) as (executor, address, service):
        assert isinstance(await ended(executor, address, left=SOON, streaming=True), TimedOut)
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


REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
SHOP: dict[str, Any] = {"service": "shop.v1.Orders", "method": "Place"}


def describing(*files: FileDescriptorProto) -> Service:
    """A server that answers whatever is asked about it with these files."""
    described = reflection_pb2.FileDescriptorResponse(
        file_descriptor_proto=[file.SerializeToString() for file in files]
    )
    answer = reflection_pb2.ServerReflectionResponse(file_descriptor_response=described).SerializeToString()

    async def describe(raw: bytes, context: Context) -> bytes:
        return answer

    return Service({REFLECTION: describe})


LARGE: list[tuple[str, list[FileDescriptorProto]]] = [
    ("many files", [FileDescriptorProto()] * 201),
    ("many dependencies", [FileDescriptorProto(dependency=["a"] * 201)]),
    ("many names", [FileDescriptorProto(name=f"{n}", dependency=[f"{n}-{m}" for m in range(150)]) for n in "ab"]),
    ("many bytes", [FileDescriptorProto(name="a", package="x" * descriptors.MOST_BYTES)]),
]


@pytest.mark.parametrize("files", [case[1] for case in LARGE], ids=[case[0] for case in LARGE])
async def test_a_description_beyond_the_bounds_is_final(files: list[FileDescriptorProto]) -> None:
    async with a_grpc_server(describing(*files)) as address, a_grpc_executor() as executor:
        outcome = await executor.execute(a_grpc_job(address, **SHOP), Recorder())
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("grpc_not_callable", False)
    assert "too large" in outcome.error.message


async def test_what_a_server_describes_is_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def watch(name: str) -> None:
        real = getattr(descriptors, name)

        def watched(*args: Any) -> Any:
            threads.append(threading.current_thread())
            return real(*args)

        monkeypatch.setattr(descriptors, name, watched)

    watch("_read_files")
    watch("_pool")
    pool, place = a_shop()
    service = Service({"/shop.v1.Orders/Place": place})
    reflected = (["shop.v1.Orders"], pool)
    async with a_grpc_server(service, reflected=reflected) as address, a_grpc_executor() as executor:
        assert isinstance(await executor.execute(a_grpc_job(address, {"item": "tea"}, **SHOP), Recorder()), Succeeded)
    assert len(threads) >= 2
    assert threading.main_thread() not in threads


async def test_a_version_of_reflection_that_breaks_leaves_the_other_one() -> None:
    pool, place = a_shop()
    broken = Service({REFLECTION: abort_with(grpc.StatusCode.INTERNAL), "/shop.v1.Orders/Place": place})
    async with a_grpc_executor() as executor:
        async with a_grpc_server(broken, reflected=(["shop.v1.Orders"], pool)) as address:
            outcome = await executor.execute(a_grpc_job(address, **SHOP), Recorder())
        async with a_grpc_server(broken) as address:
            alone = await executor.execute(a_grpc_job(address, **SHOP), Recorder())
    assert isinstance(outcome, Succeeded)
    assert isinstance(alone, Failed)
    assert (alone.error.code, alone.error.retryable) == ("grpc_internal", True)


async def test_descriptions_are_remembered_up_to_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, place = a_shop()
    service = Service({"/shop.v1.Orders/Place": place})
    reflected = (["shop.v1.Orders"], pool)
    async with (
        a_grpc_server(service, reflected=reflected) as one,
        a_grpc_server(service, reflected=reflected) as two,
        a_grpc_executor() as executor,
    ):
        learned = executor._methods._learned
        for address in (one, two):
            await executor.execute(a_grpc_job(address, **SHOP), Recorder())
        assert [place for place, _ in learned] == [one, two]
        monkeypatch.setattr(descriptors, "MOST_LEARNED", next(iter(learned.values())).size)
        learned.pop((two, "shop.v1.Orders"))
        await executor.execute(a_grpc_job(two, **SHOP), Recorder())
        assert [place for place, _ in learned] == [two]


async def test_a_server_that_hangs_when_asked_holds_up_only_those_who_must_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = asyncio.Event()

    async def fall_silent(raw: bytes, context: Context) -> bytes:
        asked.set()
        return await hang(raw, context)

    pool, place = a_shop()
    described = Service({"/shop.v1.Orders/Place": place})
    reflected = (["shop.v1.Orders"], pool)
    silent = Service({REFLECTION: fall_silent})
    async with (
        a_grpc_server(silent, described, reflected=reflected) as address,
        a_grpc_executor() as executor,
    ):
        monkeypatch.setattr(descriptors, "SERVICES", descriptors.SERVICES[1:])
        assert isinstance(await executor.execute(a_grpc_job(address, **SHOP), Recorder()), Succeeded)
        monkeypatch.undo()
        asking = asyncio.create_task(executor.execute(a_grpc_job(address, service="a.B", method="C"), Recorder()))
        await asked.wait()
        assert isinstance(await executor.execute(a_grpc_job(address, **SHOP), Recorder()), Succeeded)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_who_asks_a_server_that_hangs_gives_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "LONGEST_ASK", timedelta(milliseconds=100))
    async with a_grpc_server(Service({REFLECTION: hang})) as address, a_grpc_executor() as executor:
        outcome = await executor.execute(a_grpc_job(address, **SHOP), Recorder())
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("grpc_deadline_exceeded", True)


def a_pool_of(file: FileDescriptorProto) -> descriptor_pool.DescriptorPool:
    """With `odd.Service/Call`, which takes and answers the first message of the file."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = f".{file.package}.{file.message_type[0].name}"
    calling = FileDescriptorProto(name="odd.proto", package="odd", syntax="proto3", dependency=[file.name])
    calling.service.add(name="Service").method.add(name="Call", input_type=kind, output_type=kind)
    pool.Add(calling)
    return pool


def any_of_anys(depth: int) -> tuple[FileDescriptorProto, bytes]:
    file, raw = FileDescriptorProto(), b""
    any_pb2.Any.DESCRIPTOR.file.CopyToProto(file)
    for _ in range(depth):
        raw = any_pb2.Any(type_url="type.googleapis.com/google.protobuf.Any", value=raw).SerializeToString()
    return file, raw


def a_time_without_seconds() -> tuple[FileDescriptorProto, bytes]:
    file = FileDescriptorProto(name="false.proto", package="google.protobuf", syntax="proto3")
    field = file.message_type.add(name="Visit").field.add(name="at", number=1, type_name=".google.protobuf.Timestamp")
    field.type, field.label = field.TYPE_MESSAGE, field.LABEL_OPTIONAL
    file.message_type.add(name="Timestamp")
    return file, b"\x0a\x00"


async def call_odd(file: FileDescriptorProto, raw: bytes, *, payload: Any) -> tuple[Any, Service]:
    async def answer(_: bytes, context: Context) -> bytes:
        return raw

    service = Service({"/odd.Service/Call": answer})
    async with a_grpc_server(service) as address, a_grpc_executor(known=a_pool_of(file)) as executor:
        job = a_grpc_job(address, payload, service="odd.Service", method="Call")
        return await executor.execute(job, Recorder()), service


@pytest.mark.parametrize("shape", [any_of_anys(2000), a_time_without_seconds()], ids=["deep", "false"])
async def test_an_answer_that_cannot_be_told_as_json_is_final(shape: tuple[FileDescriptorProto, bytes]) -> None:
    outcome, service = await call_odd(*shape, payload={})
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("bad_response", False)
    assert len(service.calls) == 1


async def test_a_payload_for_a_type_that_is_not_what_its_name_says_is_final() -> None:
    outcome, service = await call_odd(*a_time_without_seconds(), payload={"at": "2026-01-31T09:00:00Z"})
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.retryable) == ("bad_payload", False)
    assert service.calls == []
