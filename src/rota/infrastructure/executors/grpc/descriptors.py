"""What the methods of other services take and answer: from files in the settings, or asked of the server (reflection).

What a server says of itself is bounded like any other answer, is used for that server alone, and is asked again after a
while, since services change.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import grpc
import grpc.aio
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError, Message
from grpc_reflection.v1alpha import reflection_pb2

from rota.application.ports.system import Clock
from rota.domain.errors import ConfigError
from rota.infrastructure.executors.grpc.channels import Link

FRESH = timedelta(minutes=10)
MOST_METHODS = 256
MOST_FILES = 200
MOST_BYTES = 4 * 1024**2
SERVICES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")


class UnknownMethodError(Exception):
    """There is no description of the method, or none that can be used."""


@dataclass(frozen=True, slots=True)
class Method:
    """How to write its request and read its answer."""

    request: type[Message]
    response: type[Message]
    pool: descriptor_pool.DescriptorPool


def load_descriptors(paths: Sequence[str]) -> descriptor_pool.DescriptorPool:
    """The methods of all files, as `protoc --descriptor_set_out --include_imports` writes them."""
    files: dict[str, FileDescriptorProto] = {}
    for path in paths:
        try:
            found = FileDescriptorSet.FromString(Path(path).read_bytes())
        except (OSError, DecodeError) as exc:
            fix = "protoc --include_imports --descriptor_set_out=FILE, and name FILE"
            raise ConfigError(f"grpc.descriptor_sets: {path} cannot be used: {exc}", fix=fix) from exc
        files |= {file.name: file for file in found.file}
    try:
        return _pool(files)
    except UnknownMethodError as exc:
        raise ConfigError(f"grpc.descriptor_sets: {exc}", fix="protoc --include_imports") from exc


class Methods:
    """Methods by their names; what was learned from servers is remembered for a while."""

    def __init__(self, known: descriptor_pool.DescriptorPool, clock: Clock) -> None:
        self._known = known
        self._clock = clock
        self._learned: OrderedDict[tuple[str, str, str], tuple[float, Method]] = OrderedDict()

    async def find(self, link: Link, place: str, *, service: str, method: str) -> Method:
        """The method of the service at this place. Raises `UnknownMethodError` and what a call raises."""
        try:
            return _method(self._known, service, method=method)
        except KeyError:
            pass
        key = (place, service, method)
        async with link.learning:
            learned = self._learned.get(key)
            if learned is not None and self._clock.monotonic() - learned[0] < FRESH.total_seconds():
                return learned[1]
            pool = await _ask(link.channel, service)
            try:
                found = _method(pool, service, method=method)
            except KeyError as exc:
                raise UnknownMethodError(f"the server has no method {service}/{method}") from exc
            self._learned[key] = (self._clock.monotonic(), found)
            if len(self._learned) > MOST_METHODS:
                self._learned.popitem(last=False)
            return found


def _method(pool: descriptor_pool.DescriptorPool, service: str, *, method: str) -> Method:
    described = pool.FindServiceByName(service).methods_by_name[method]
    if described.client_streaming or described.server_streaming:
        raise UnknownMethodError(f"{service}/{method} streams; only unary methods can be called")
    make = message_factory.GetMessageClass
    return Method(make(described.input_type), make(described.output_type), pool)


async def _ask(channel: grpc.aio.Channel, service: str) -> descriptor_pool.DescriptorPool:
    """Every file that the service depends on, by the server's reflection of either version."""
    for version in SERVICES:
        try:
            return _pool(await _gather(channel, version, service=service))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
    problem = f"the server offers no reflection, and no file of grpc.descriptor_sets has {service}"
    raise UnknownMethodError(problem)


async def _gather(channel: grpc.aio.Channel, version: str, *, service: str) -> dict[str, FileDescriptorProto]:
    asked: asyncio.Queue[reflection_pb2.ServerReflectionRequest | None] = asyncio.Queue()
    asked.put_nowait(reflection_pb2.ServerReflectionRequest(file_containing_symbol=service))
    files: dict[str, FileDescriptorProto] = {}
    wanted: set[str] = set()
    size = waiting = 1

    async def requests() -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
        while (request := await asked.get()) is not None:
            yield request

    call = channel.stream_stream(
        f"/{version}/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )(requests())
    try:
        async for answer in call:
            waiting -= 1
            for file in _read_files(answer, service):
                size += file.ByteSize()
                files[file.name] = file
            if size > MOST_BYTES or len(files) > MOST_FILES:
                raise UnknownMethodError(f"the description of {service} is too large")
            missing = {name for file in files.values() for name in file.dependency} - files.keys() - wanted
            for name in missing:
                asked.put_nowait(reflection_pb2.ServerReflectionRequest(file_by_filename=name))
            wanted |= missing
            waiting += len(missing)
            if not waiting:
                break
    finally:
        call.cancel()
    if waiting:
        raise UnknownMethodError(f"the server ended its description of {service} too early")
    return files


def _read_files(answer: reflection_pb2.ServerReflectionResponse, service: str) -> list[FileDescriptorProto]:
    if answer.HasField("error_response"):
        raise UnknownMethodError(f"the server does not describe {service}: {answer.error_response.error_message[:200]}")
    try:
        return [FileDescriptorProto.FromString(raw) for raw in answer.file_descriptor_response.file_descriptor_proto]
    except DecodeError as exc:
        raise UnknownMethodError(f"the server's description of {service} cannot be read") from exc


def _pool(files: dict[str, FileDescriptorProto]) -> descriptor_pool.DescriptorPool:
    """All of the files, each after what it depends on."""
    pool, added = descriptor_pool.DescriptorPool(), set[str]()
    left = dict(files)
    while left:
        ready = [name for name, file in left.items() if added.issuperset(file.dependency)]
        if not ready:
            raise UnknownMethodError(f"a description is incomplete: it lacks what {min(left)} depends on")
        for name in ready:
            try:
                pool.Add(left.pop(name))
            except (TypeError, ValueError) as exc:
                raise UnknownMethodError(f"the description in {name} contradicts itself: {exc}") from exc
            added.add(name)
    return pool
