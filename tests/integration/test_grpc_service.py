"""The base class of services that Rota calls over gRPC, called by the executor itself."""

import asyncio
from datetime import timedelta
from typing import Any

import grpc.aio
import pytest

import rota
from rota._proto.executor.v1 import executor_pb2 as pb
from rota.domain.attempt import Deferred, Failed, Outcome, Snoozed, Succeeded, TaskError
from rota.grpc_service import Accepted, ExecutorService, Request
from rota.testing.values import replace
from tests.support.grpc_jobs import CALLBACK, a_grpc_executor, a_grpc_job
from tests.support.local_jobs import Recorder, data_of


class Images(ExecutorService):
    """Does what its payload says."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.requests: list[Request] = []
        self.begun, self.stopped = asyncio.Event(), asyncio.Event()

    async def execute(self, request: Request) -> Any:
        self.requests.append(request)
        match request.payload.get("do"):
            case "fail":
                raise rota.Fail("no such image")
            case "retry":
                raise rota.Retry("busy", after="9s")
            case "snooze":
                raise rota.Snooze("5m")
            case "raise":
                raise ZeroDivisionError("width")
            case "accept":
                return Accepted()
            case "nothing":
                return None
            case "hang":
                await self._hang()
            case _:
                pass
        await request.progress(0.5, "half way")
        await request.log("resizing", level="warning", width=200)
        return {"width": 200}

    async def _hang(self) -> None:
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.stopped.set()


class Caller:
    """What a call tells of who called."""

    def __init__(self, **metadata: str) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return list(self._metadata.items())

    def time_remaining(self) -> None:
        return None


async def run(
    service: Images, payload: Any, *, recorder: Recorder | None = None, callback: str = CALLBACK, **config: Any
) -> Outcome:
    server = grpc.aio.server()
    service.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with a_grpc_executor() as executor:
            job = a_grpc_job(f"127.0.0.1:{port}", payload, **config)
            return await executor.execute(replace(job, link=lambda _: callback), recorder or Recorder())
    finally:
        await server.stop(None)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("do", "outcome"),
    [
        ("nothing", Succeeded()),
        ("fail", Failed(TaskError("failed", "no such image", retryable=False))),
        ("retry", Failed(TaskError("retry", "busy"), retry_after=timedelta(seconds=9))),
        ("snooze", Snoozed(timedelta(minutes=5))),
        ("raise", Failed(TaskError("ZeroDivisionError", "width"))),
        ("accept", Deferred()),
    ],
)
async def test_an_attempt_ends_as_the_service_says(do: str, outcome: Outcome, streaming: bool) -> None:
    assert await run(Images(), {"do": do}, streaming=streaming) == outcome


@pytest.mark.parametrize("streaming", [False, True])
async def test_work_is_not_left_to_a_service_that_cannot_call_back(streaming: bool) -> None:
    service = Images()
    refused = await run(service, {"do": "accept"}, callback="", streaming=streaming)
    assert isinstance(refused, Failed)
    assert (refused.error.code, refused.error.retryable) == ("callbacks_off", False)
    assert "api.public_url" in refused.error.message
    assert service.requests[0].callback_url == ""


async def test_progress_and_lines_come_before_the_result() -> None:
    recorder, service = Recorder(), Images()
    assert data_of(await run(service, {}, recorder=recorder, streaming=True)) == '{"width": 200}'
    assert recorder.steps == [(0.5, "half way")]
    assert recorder.lines == [("resizing", "warning", '{"width": 200}')]
    request = service.requests[0]
    assert (request.task_id, request.attempt, request.type, request.idempotency_key) == ("1", 1, "call", "1")
    assert request.callback_url == CALLBACK
    assert request.seconds_left is not None
    assert 0 < request.seconds_left <= 31


async def test_without_a_stream_nobody_hears_of_progress_and_nothing_breaks() -> None:
    recorder = Recorder()
    assert isinstance(await run(Images(), {}, recorder=recorder), Succeeded)
    assert recorder.steps == []


@pytest.mark.parametrize("streaming", [False, True])
async def test_work_is_stopped_at_its_deadline(streaming: bool) -> None:
    service = Images()
    await run(service, {"do": "hang"}, left=1.5, streaming=streaming)
    async with asyncio.timeout(30):
        await service.stopped.wait()


@pytest.mark.parametrize("streaming", [False, True])
async def test_with_a_secret_only_those_who_bring_it_come_in(streaming: bool) -> None:
    service = Images(secret="open sesame")
    refused = await run(service, {}, streaming=streaming)
    assert isinstance(refused, Failed)
    assert (refused.error.code, refused.error.retryable) == ("grpc_unauthenticated", False)
    assert service.requests == []
    brought = Caller(**{"x-rota-secret": "open sesame"})
    assert (await service._execute(pb.ExecuteRequest(payload_json="{}"), brought)).HasField("success")


@pytest.mark.parametrize("secret", ["", " "])
def test_a_secret_that_everybody_has_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="secret is empty"):
        ExecutorService(secret=secret)


async def test_a_stream_that_is_cancelled_leaves_nothing_behind() -> None:
    service, others = Images(), asyncio.all_tasks()
    events = service._execute_stream(pb.ExecuteRequest(payload_json='{"do": "hang"}'), Caller())
    reading = asyncio.ensure_future(anext(events))
    await service.begun.wait()
    reading.cancel()
    await asyncio.wait([reading])
    assert all(task.cancelling() for task in asyncio.all_tasks() - others)
    await service.stopped.wait()


async def test_a_base_class_alone_can_do_nothing() -> None:
    service = Images()
    await run(service, {})
    with pytest.raises(NotImplementedError):
        await ExecutorService().execute(service.requests[0])
