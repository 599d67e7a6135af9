"""The gRPC API from outside: who is let in, what is bounded, what streams, and how it begins and ends."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import unknown_fields
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from structlog.testing import capture_logs

from rota._proto.v1 import task_service_pb2 as pb
from rota.config.wiring import Role as NodeRole
from rota.config.wiring import build_roles, open_node
from rota.domain.access import Role
from rota.domain.errors import ConfigError
from rota.interfaces import front
from rota.interfaces.front import ApiFront, serve_api
from rota.interfaces.grpc import service as grpc_service
from rota.interfaces.grpc import streaming
from rota.interfaces.grpc.methods import METHODS
from rota.interfaces.http import endpoint
from rota.testing.values import replace
from tests.support.api import a_plan
from tests.support.grpc_api import GrpcApi, a_grpc_api
from tests.support.grpc_jobs import a_certificate
from tests.support.local_jobs import until
from tests.support.patience import PATIENCE_S

EMAIL = pb.CreateTaskRequest(type="email")


@pytest.fixture
async def api() -> AsyncIterator[GrpcApi]:
    async with a_grpc_api() as made:
        yield made


async def refusal(call: Awaitable[Any]) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def rota_code(error: grpc.aio.AioRpcError) -> Any:
    return dict(error.trailing_metadata() or ()).get("rota-code")


def details_of(error: grpc.aio.AioRpcError) -> list[Any]:
    raw = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
    kinds = (error_details_pb2.ErrorInfo, error_details_pb2.RetryInfo, error_details_pb2.BadRequest)
    found = []
    for detail in status_pb2.Status.FromString(raw).details:
        made = next(kind() for kind in kinds if detail.Is(kind.DESCRIPTOR))
        detail.Unpack(made)
        found.append(made)
    return found


@pytest.mark.parametrize("token", [None, "Bearer", "Bearer x", "Basic YTpi", "Bearer rota_1_" + "a" * 43])
async def test_nothing_is_open_without_a_good_token(api: GrpcApi, token: str | None) -> None:
    metadata = [] if token is None else [("authorization", token)]
    for method in METHODS.values():
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await api.raw_call(method.name, b"", metadata=metadata)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED, method.name
        assert rota_code(caught.value) == "unauthenticated"


async def test_two_authorizations_are_none(api: GrpcApi) -> None:
    both = [("authorization", f"Bearer {await api.secret()}"), ("authorization", "Bearer other")]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.raw_call("ListTasks", b"", metadata=both)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_key_makes_a_repeat_the_same_task(api: GrpcApi) -> None:
    key = [("idempotency-key", "order-17")]
    first = await api.call("CreateTask", EMAIL, metadata=key)
    second = await api.call("CreateTask", EMAIL, metadata=key)
    assert first.id == second.id
    other = await refusal(api.call("CreateTask", pb.CreateTaskRequest(type="email", name="other"), metadata=key))
    assert rota_code(other) == "idempotency_mismatch"
    assert details_of(other)[0].metadata == {"task_id": first.id}
    twice = await refusal(api.call("CreateTask", EMAIL, metadata=[*key, *key]))
    assert rota_code(twice) == "invalid_request"


async def test_an_error_names_its_fields_in_standard_details(api: GrpcApi) -> None:
    request = pb.CreateTasksRequest(tasks=[EMAIL, pb.CreateTaskRequest(type="?"), pb.CreateTaskRequest(type="!")])
    info, bad = details_of(await refusal(api.call("CreateTasks", request)))
    assert (info.reason, info.domain) == ("invalid_request", "rota")
    assert [one.field for one in bad.field_violations] == ["tasks[1].type", "tasks[2].type"]


async def test_an_error_with_many_fields_fits_what_clients_take(api: GrpcApi) -> None:
    request = pb.CreateTasksRequest(tasks=[pb.CreateTaskRequest(type="?" * 150)] * 500)
    error = await refusal(api.call("CreateTasks", request))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert 10 <= len(details_of(error)[1].field_violations) < 500


async def test_a_token_has_its_rate_over_both_interfaces() -> None:
    async with a_grpc_api(api={"rate": 2}) as api, api.client() as http:
        answers = [await http.get("/tasks") for _ in range(20)]
        assert answers[-1].status_code == 429
        error = await refusal(api.call("ListTasks", pb.ListTasksRequest()))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        info, pause = details_of(error)
        assert (info.reason, pause.retry_delay.seconds) == ("rate_limited", 1)


def with_an_unknown_field() -> bytes:
    raw = pb.CreateTaskRequest(type="email").SerializeToString() + b"\xfa\x7f\x01x"
    assert len(unknown_fields.UnknownFieldSet(pb.CreateTaskRequest.FromString(raw)))
    return raw


def an_email(**fields: Any) -> bytes:
    return pb.CreateTaskRequest(type="email", **fields).SerializeToString()


def a_batch(number: int, **fields: Any) -> bytes:
    return pb.CreateTasksRequest(tasks=[pb.CreateTaskRequest(type="email", **fields)] * number).SerializeToString()


BAD, LARGE = "invalid_request", "body_too_large"
HOSTILE: list[tuple[str, bytes, str]] = [
    ("CreateTask", b"\xff\xff\xff", BAD),
    ("CreateTask", with_an_unknown_field(), BAD),
    ("CreateTask", an_email(payload_json="{"), BAD),
    ("CreateTask", an_email(payload_json='{"a":1,"a":2}'), BAD),
    ("CreateTask", an_email(payload_json="NaN"), BAD),
    ("CreateTask", an_email(payload_json="[" * 99_999), BAD),
    ("CreateTask", an_email(payload_json='"\\ud800"'), BAD),
    ("CreateTask", an_email(payload_json="[0" + ",0" * 300_000 + "]"), LARGE),
    ("CreateTask", an_email(name="x" * 1_100_000), LARGE),
    ("CreateTasks", b"\x0a\x00" * 500_000, LARGE),
    ("CreateTasks", a_batch(1, retry=pb.Retry(retry_on=[""] * 500_000)), LARGE),
    ("CreateTasks", b"\x7b\x12\x02ab\x7c" + a_batch(1, retry=pb.Retry(retry_on=[""] * 500_000)), LARGE),
    ("ListTasks", pb.ListTasksRequest(priority=[1] * 500_000).SerializeToString(), LARGE),
    ("CreateTasks", a_batch(300, payload_json="[" + "0," * 2000 + "0]"), LARGE),
    ("ListTasks", pb.ListTasksRequest(q="a\x00").SerializeToString(), BAD),
]


@pytest.mark.parametrize(("name", "raw", "code"), HOSTILE, ids=range(len(HOSTILE)))
async def test_a_hostile_message_is_refused_and_nothing_is_stored(
    api: GrpcApi, name: str, raw: bytes, code: str
) -> None:
    error = await refusal(api.call(name, raw))
    assert (error.code(), rota_code(error)) == (grpc.StatusCode.INVALID_ARGUMENT, code)
    assert not (await api.call("ListTasks", pb.ListTasksRequest())).items


async def test_a_time_that_no_calendar_has_is_refused(api: GrpcApi) -> None:
    request = pb.CreateTaskRequest(type="email")
    request.scheduled_at.seconds = 2**62
    assert rota_code(await refusal(api.call("CreateTask", request))) == "invalid_request"


async def test_a_message_beyond_every_bound_is_cut_by_the_library(api: GrpcApi) -> None:
    raw = pb.CreateTaskRequest(type="email", name="x" * 20_000_000).SerializeToString()
    assert (await refusal(api.call("CreateTask", raw))).code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_bomb_of_compressed_zeros_does_not_burst(api: GrpcApi) -> None:
    assert api.channel is not None
    invoke: Any = api.channel.unary_unary("/rota.v1.TaskService/CreateTask")
    token = (("authorization", f"Bearer {await api.secret()}"),)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await invoke(bytes(40_000_000), metadata=token, compression=grpc.Compression.Gzip, timeout=PATIENCE_S)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_call_without_a_message_is_told_so(api: GrpcApi) -> None:
    assert api.channel is not None

    async def nothing() -> AsyncIterator[bytes]:
        return
        yield b""

    invoke: Any = api.channel.stream_stream("/rota.v1.TaskService/ListTasks")
    call = invoke(nothing(), metadata=(("authorization", f"Bearer {await api.secret()}"),), timeout=PATIENCE_S)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert rota_code(caught.value) == "invalid_request"


async def test_large_messages_are_read_beside_the_loop(api: GrpcApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.interfaces.grpc.service.MOST_PARSED_AT_ONCE", 10)
    assert endpoint.MOST_PARSED_AT_ONCE > 10
    made = await api.call("CreateTasks", pb.CreateTasksRequest(tasks=[EMAIL] * 100))
    assert len(made.ids) == 100


async def test_a_defect_tells_the_client_nothing(api: GrpcApi, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the secret plan")

    monkeypatch.setattr(type(api.services.node.store.tasks), "list_page", fail)
    with capture_logs() as logs:
        error = await refusal(api.call("ListTasks", pb.ListTasksRequest()))
    assert (error.code(), rota_code(error)) == (grpc.StatusCode.INTERNAL, "internal")
    assert "secret plan" not in str(error.details())
    assert any(line["event"] == "grpc.failed" for line in logs)


async def test_lines_are_followed_until_the_task_has_ended_and_after_a_break(api: GrpcApi) -> None:
    task = await api.call("CreateTask", EMAIL)
    call = await api.stream("FollowTaskLogs", pb.FollowTaskLogsRequest(id=task.id))
    first = await call.read()
    await api.call("CancelTask", pb.CancelTaskRequest(id=task.id))
    rest = [await call.read(), await call.read()]
    assert await call.read() is grpc.aio.EOF
    assert [event.WhichOneof("event") for event in (first, *rest)] == ["log", "log", "end"]
    assert (first.log.to_status, rest[0].log.to_status, rest[1].end.status) == ("PENDING", "CANCELLED", "CANCELLED")
    again = await api.stream("FollowTaskLogs", pb.FollowTaskLogsRequest(id=task.id, after=first.log.seq))
    assert [event.WhichOneof("event") async for event in again] == ["log", "end"]


async def test_events_are_followed_and_go_on_after_the_last_one_seen(api: GrpcApi) -> None:
    call = await api.stream("WatchEvents", pb.WatchEventsRequest(kind=["task.created"]))
    await call.initial_metadata()
    tasks = [await api.call("CreateTask", EMAIL) for _ in range(3)]
    first = await call.read()
    assert (first.event.kind, first.event.task_id) == ("task.created", tasks[0].id)
    call.cancel()
    again = await api.stream("WatchEvents", pb.WatchEventsRequest(kind=["task.created"], after=first.event.id))
    assert [(await again.read()).event.task_id for _ in range(2)] == [tasks[1].id, tasks[2].id]
    again.cancel()


async def test_a_stream_tells_what_was_missed(api: GrpcApi) -> None:
    call = await api.stream("WatchEvents", pb.WatchEventsRequest(after="s17"))
    assert (await call.read()).WhichOneof("message") == "missed"
    call.cancel()
    call = await api.stream("WatchEvents", pb.WatchEventsRequest(after="nonsense"))
    error = await refusal(call.read())
    assert (rota_code(error), details_of(error)[1].field_violations[0].field) == ("invalid_request", "after")


async def test_a_stream_ends_with_its_token(api: GrpcApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "LOOK_AT_TOKEN", timedelta(milliseconds=1))
    await api.secret(Role.VIEWER)
    call = await api.stream("WatchEvents", pb.WatchEventsRequest(), role=Role.VIEWER)
    await call.initial_metadata()
    found = (await api.call("ListTokens", pb.ListTokensRequest())).items
    viewer = next(token.id for token in found if token.role == "viewer")
    await api.call("RevokeToken", pb.RevokeTokenRequest(id=viewer))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        while True:
            await call.read()
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_streams_are_bounded_and_end_when_the_server_stops() -> None:
    async with a_grpc_api(api={"max_streams": 1}) as api:
        call = await api.stream("WatchEvents", pb.WatchEventsRequest())
        await call.initial_metadata()
        other = await api.stream("WatchEvents", pb.WatchEventsRequest())
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await other.read()
        assert rota_code(refused.value) == "too_many_streams"
        api.built.roles.stop()
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await call.read()
        assert (ended.value.code(), rota_code(ended.value)) == (grpc.StatusCode.UNAVAILABLE, "unavailable")


async def test_a_call_under_way_is_finished_when_the_server_stops() -> None:
    async with a_grpc_api() as api:
        task = await api.call("CreateTask", EMAIL)
        waiting = asyncio.create_task(api.call("GetTask", pb.GetTaskRequest(id=task.id, wait="30s")))
        await until(lambda: api.server.state.held_bytes > 0)  # it has come in
        api.built.roles.stop()
        assert (await waiting).status == "PENDING"


async def ask_health(channel: grpc.aio.Channel, service: str = "") -> Any:
    invoke: Any = channel.unary_unary(
        "/grpc.health.v1.Health/Check", response_deserializer=health_pb2.HealthCheckResponse.FromString
    )
    return await invoke(health_pb2.HealthCheckRequest(service=service).SerializeToString(), timeout=PATIENCE_S)


async def test_health_is_for_everybody_and_follows_the_store(api: GrpcApi, monkeypatch: pytest.MonkeyPatch) -> None:
    assert api.channel is not None
    kinds = health_pb2.HealthCheckResponse
    assert (await ask_health(api.channel)).status == kinds.SERVING
    assert (await ask_health(api.channel, "rota.v1.TaskService")).status == kinds.SERVING
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask_health(api.channel, "nothing")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    api.server.state.stopping.set()
    assert (await ask_health(api.channel)).status == kinds.NOT_SERVING


async def is_reflected(address: str) -> bool:
    async with grpc.aio.insecure_channel(address) as channel:
        invoke: Any = channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )

        async def requests() -> AsyncIterator[Any]:
            yield reflection_pb2.ServerReflectionRequest(file_containing_symbol="rota.v1.TaskService")

        for _ in range(100):
            try:
                answers = [answer async for answer in invoke(requests(), timeout=PATIENCE_S)]
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.INTERNAL and "execute_batch" in (error.debug_error_string() or ""):
                    continue  # refused before the request was written: the client says that instead of the refusal
                assert error.code() is grpc.StatusCode.UNIMPLEMENTED
                return False
            return len(answers[0].file_descriptor_response.file_descriptor_proto) > 0
        raise AssertionError("the request was never written before its refusal came")


async def test_reflection_is_for_development_alone(api: GrpcApi) -> None:
    assert api.front is not None
    assert api.front.grpc is not None
    assert await is_reflected(api.front.grpc.address)
    async with a_front() as served:
        assert served.grpc is not None
        assert not await is_reflected(served.grpc.address)


@asynccontextmanager
async def a_front(**api: Any) -> AsyncIterator[ApiFront]:
    """What `rota api` serves."""
    plan = replace(a_plan(api={"grpc_port": 0, **api}), open_front=serve_api)
    async with open_node(plan) as node:
        built = await build_roles(plan, node, roles=[NodeRole.API])
        running = asyncio.create_task(built.roles.run())
        assert isinstance(built.front, ApiFront)
        try:
            yield built.front
        finally:
            built.roles.stop()
            await running


async def test_a_port_that_is_taken_is_told_with_what_to_try() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 is in use; try: --set api.grpc_port="):
            async with a_front(grpc_port=port):
                pass


async def test_gRPC_can_be_switched_off() -> None:  # noqa: N802 its name
    async with a_front(grpc_port="null") as served:
        assert served.grpc is None


async def test_without_the_library_there_is_one_line_and_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "find_spec", lambda name: None)
    with capture_logs() as logs:
        async with a_front() as served:
            assert served.grpc is None
    told = [line["hint"] for line in logs if line["event"] == "grpc.absent"]
    assert told == ["pip install 'rota[grpc]', or api.grpc_port: null"]


async def test_tls_is_served_with_the_certificate_of_the_api(tmp_path: Path) -> None:
    cert, key = a_certificate(tmp_path)
    async with a_front(tls_cert=cert, tls_key=key) as served:
        assert served.grpc is not None
        credentials = grpc.ssl_channel_credentials(await asyncio.to_thread(Path(cert).read_bytes))
        options = [("grpc.ssl_target_name_override", "localhost")]
        async with grpc.aio.secure_channel(served.grpc.address, credentials, options) as channel:
            assert (await ask_health(channel)).status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("over", ["http", "grpc"])
async def test_a_config_for_a_service_that_cannot_be_called_is_refused(api: GrpcApi, over: str) -> None:
    if over == "grpc":
        request = pb.PutTaskConfigRequest(type="call", executor_json='{"type": "grpc", "address": "nowhere"}')
        info, bad = details_of(await refusal(api.call("PutTaskConfig", request)))
        assert (info.reason, bad.field_violations[0].field) == ("invalid_request", "executor.address")
        return
    async with api.client() as http:
        answer = await http.put("/task-configs/call", json={"executor": {"type": "grpc", "address": "nowhere"}})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "executor.address")
        assert (await http.get("/task-configs/call")).status_code == 404


async def test_a_client_that_reads_nothing_loses_its_place(api: GrpcApi, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        await api.call("CreateTask", pb.CreateTaskRequest(type="email", payload_json=f'{{"text":"{"x" * 200_000}"}}'))
    monkeypatch.setattr(grpc_service, "READ_TIMEOUT", timedelta(milliseconds=300))
    assert api.front is not None
    assert api.front.grpc is not None
    options = [("grpc.http2.bdp_probe", 0)]  # a client whose window does not grow
    async with grpc.aio.insecure_channel(api.front.grpc.address, options) as channel:
        invoke: Any = channel.unary_stream("/rota.v1.TaskService/ListTasks")
        with capture_logs() as logs:
            request = pb.ListTasksRequest(full=True).SerializeToString()
            call = invoke(request, metadata=(("authorization", f"Bearer {await api.secret()}"),), timeout=PATIENCE_S)
            await until(lambda: any(line["event"] == "api.client_stalled" for line in logs))
            call.cancel()
    assert not any(line["event"] == "grpc.failed" for line in logs)


async def test_a_call_that_takes_too_long_is_told_so(api: GrpcApi, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await api.call("CreateTask", EMAIL)
    monkeypatch.setattr(grpc_service, "LONGEST_CALL", timedelta(milliseconds=50))
    error = await refusal(api.call("GetTask", pb.GetTaskRequest(id=task.id, wait="30s")))
    assert (error.code(), rota_code(error)) == (grpc.StatusCode.UNAVAILABLE, "unavailable")
