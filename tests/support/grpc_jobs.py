"""Jobs for the gRPC executor, and servers of every kind for it to call."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import reflection

from rota._proto.executor.v1 import executor_pb2 as pb
from rota.application.ports.executor import Job
from rota.infrastructure.executors.grpc.descriptors import Methods
from rota.infrastructure.executors.grpc.executor import GrpcExecutor
from rota.infrastructure.executors.grpc.settings import GrpcSettings
from rota.infrastructure.executors.targets import AllowEntry, TargetGuard
from rota.infrastructure.system import SystemClock
from tests.support.builders import a_config, a_running_state, a_task, an_attempt

EXECUTE = "/rota.executor.v1.Executor/Execute"
CALLBACK = "https://rota.example.com/api/v1/tasks/1/attempts/1.default.abc"
STREAM = "/rota.executor.v1.Executor/ExecuteStream"
LOOPBACK = AllowEntry(network=ip_network("127.0.0.0/8"))
Answer = Callable[[bytes, "Context"], Awaitable[bytes | None]]
Context = grpc.aio.ServicerContext[Any, Any]


def a_grpc_job(
    address: str, payload: Any = None, *, left: float = 30.0, metadata: Mapping[str, str] | None = None, **executor: Any
) -> Job:
    """An attempt to call the service; other keywords are the config's."""
    state = a_running_state()
    task = a_task(state=state, type="call", payload=json.dumps(payload or {}), metadata=metadata or {})
    config = a_config("call", executor_type="grpc", executor_config=json.dumps({"address": address, **executor}))
    return Job(task, an_attempt(state), config, SystemClock().monotonic() + left, link=lambda _: CALLBACK)


@asynccontextmanager
async def a_grpc_executor(
    *, guard: TargetGuard | None = None, known: descriptor_pool.DescriptorPool | None = None, **settings: Any
) -> AsyncIterator[GrpcExecutor]:
    clock = SystemClock()
    methods = Methods(known or descriptor_pool.DescriptorPool(), clock)
    executor = GrpcExecutor(clock, guard or TargetGuard([LOOPBACK]), settings=GrpcSettings(**settings), methods=methods)
    await executor.start()
    try:
        yield executor
    finally:
        await executor.close()


@dataclass
class Service(grpc.GenericRpcHandler):
    """Answers by path with a function of the raw request; every call is counted."""

    answers: Mapping[str, Answer]
    calls: list[str] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        path = handler_call_details.method
        answer = self.answers.get(path)
        if answer is None:
            return None

        async def run(raw: bytes, context: Context) -> AsyncIterator[bytes]:
            self.calls.append(path)
            self.metadata.append({key: str(value) for key, value in context.invocation_metadata() or ()})
            made = await answer(raw, context)
            if made is not None:
                yield made

        return grpc.unary_stream_rpc_method_handler(run)  # on the wire a unary answer is a stream of one


@asynccontextmanager
async def a_grpc_server(
    *handlers: grpc.GenericRpcHandler,
    credentials: grpc.ServerCredentials | None = None,
    reflected: tuple[Sequence[str], descriptor_pool.DescriptorPool] | None = None,
    options: Sequence[tuple[str, Any]] = (),
) -> AsyncIterator[str]:
    """A real server on a free port of loopback; its address."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *options])
    server.add_generic_rpc_handlers(handlers)
    if reflected is not None:
        reflection.enable_server_reflection([*reflected[0], reflection.SERVICE_NAME], server, pool=reflected[1])
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def succeed_with(result: Any = None) -> Answer:
    async def answer(raw: bytes, context: Context) -> bytes:
        success = pb.Success(result_json="" if result is None else json.dumps(result))
        return pb.ExecuteResponse(success=success).SerializeToString()

    return answer


def abort_with(code: grpc.StatusCode, details: str = "", *, trailers: Sequence[tuple[str, Any]] = ()) -> Answer:
    async def answer(raw: bytes, context: Context) -> bytes:
        return await context.abort(code, details, tuple(trailers))

    return answer


async def hang(raw: bytes, context: Context) -> bytes:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def a_shop_file() -> descriptor_pb2.FileDescriptorProto:
    """`shop.v1.Orders` with `Place(Order) → Receipt` and `Watch`, which streams; it depends on a file of Google's."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="shop/v1/orders.proto",
        package="shop.v1",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    order = file.message_type.add(name="Order")
    order.field.add(name="item", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    order.field.add(name="count", number=2, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    order.field.add(
        name="wanted_at",
        number=3,
        type=kinds.TYPE_MESSAGE,
        label=kinds.LABEL_OPTIONAL,
        type_name=".google.protobuf.Timestamp",
    )
    receipt = file.message_type.add(name="Receipt")
    receipt.field.add(name="number", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    receipt.field.add(name="total_cents", number=2, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    service = file.service.add(name="Orders")
    service.method.add(name="Place", input_type=".shop.v1.Order", output_type=".shop.v1.Receipt")
    service.method.add(name="Watch", input_type=".shop.v1.Order", output_type=".shop.v1.Receipt", server_streaming=True)
    return file


def a_shop() -> tuple[descriptor_pool.DescriptorPool, Answer]:
    """What describes the shop, and how it takes an order."""
    pool = descriptor_pool.DescriptorPool()
    needed = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName("google/protobuf/timestamp.proto").CopyToProto(needed)
    pool.Add(needed)
    pool.Add(a_shop_file())
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.v1.Order"))
    receipt = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.v1.Receipt"))

    async def place(raw: bytes, context: Context) -> bytes:
        asked: Any = order.FromString(raw)
        return receipt(number=f"{asked.item}-{asked.count}", total_cents=asked.count * 250).SerializeToString()

    return pool, place


def server_credentials(cert: str, key: str, *, clients: str) -> grpc.ServerCredentials:
    """Those of a server that lets in who has a certificate of this authority."""
    pair = (Path(key).read_bytes(), Path(cert).read_bytes())
    return grpc.ssl_server_credentials([pair], Path(clients).read_bytes(), require_client_auth=True)


def a_certificate(folder: Path, name: str = "localhost") -> tuple[str, str]:
    """Paths of a certificate for this name, which is its own authority, and of its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(  # noqa: S603 ours
        ["openssl", "req",  # noqa: S607 wherever it is installed
         "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    return str(cert), str(key)
