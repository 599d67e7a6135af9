"""What the methods of other services take and answer: from files in the settings, or asked of the server (reflection).

What a server says of itself is bounded like any other answer, is used for that server alone, and is asked again after a
while, since services change. Its bytes are counted before they are read, and read beside the loop, one server's at a
time: in memory a description takes up to eighty times what it takes on the wire.
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
LONGEST_ASK = timedelta(seconds=10)  # others wait meanwhile
MOST_FILES = 200  # of one description
MOST_BYTES = 512 * 1024  # of one; building it takes 0.2 s, in which Python does nothing else
MOST_LEARNED = 2 * 1024**2  # bytes of all that are remembered
SERVICES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")

_Files = dict[str, FileDescriptorProto]
Reflection = grpc.aio.StreamStreamMultiCallable[bytes, bytes]  # without serialisers: what comes is counted first


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
    files: _Files = {}
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


@dataclass(frozen=True, slots=True)
class _Learned:
    """What a server said of a service."""

    pool: descriptor_pool.DescriptorPool
    size: int  # bytes on the wire
    at: float


class Methods:
    """Methods by their names; what was learned from servers is remembered for a while."""

    def __init__(self, known: descriptor_pool.DescriptorPool, clock: Clock) -> None:
        self._known = known
        self._clock = clock
        self._learned: OrderedDict[tuple[str, str], _Learned] = OrderedDict()
        self._building = asyncio.Lock()

    async def find(self, link: Link, place: str, *, service: str, method: str) -> Method:
        """The method of the service at this place. Raises `UnknownMethodError` and what a call raises."""
        try:
            return _method(self._known, service, method=method)
        except KeyError:
            pass
        key = (place, service)
        found = self._find_learned(key, method)
        if found is not None:
            return found
        async with link.learning:
            found = self._find_learned(key, method)  # somebody may have asked meanwhile
            if found is not None:
                return found
            files, size = await _ask(link.channel, service)
            async with self._building:
                pool = await asyncio.to_thread(_pool, files)
            try:
                found = _method(pool, service, method=method)
            except KeyError as exc:
                raise UnknownMethodError(f"the server has no method {service}/{method}") from exc
            self._keep(key, _Learned(pool, size, self._clock.monotonic()))
            return found

    def _find_learned(self, key: tuple[str, str], method: str) -> Method | None:
        learned = self._learned.get(key)
        if learned is None or self._clock.monotonic() - learned.at >= FRESH.total_seconds():
            return None
        try:
            return _method(learned.pool, key[1], method=method)
        except KeyError:  # the service may have got it since
            return None

    def _keep(self, key: tuple[str, str], learned: _Learned) -> None:
        self._learned.pop(key, None)
        self._learned[key] = learned
        while sum(one.size for one in self._learned.values()) > MOST_LEARNED:
            self._learned.popitem(last=False)


def _method(pool: descriptor_pool.DescriptorPool, service: str, *, method: str) -> Method:
    described = pool.FindServiceByName(service).methods_by_name[method]
    if described.client_streaming or described.server_streaming:
        raise UnknownMethodError(f"{service}/{method} streams; only unary methods can be called")
    make = message_factory.GetMessageClass
    return Method(make(described.input_type), make(described.output_type), pool)


async def _ask(channel: grpc.aio.Channel, service: str) -> tuple[_Files, int]:
    """Every file that the service depends on and their size, by the server's reflection of either version.

    That a server does not know a version may come while our question is still written; grpc.aio then tells of an
    internal error, as it would of one of the server's own."""
    broken: grpc.aio.AioRpcError | None = None
    for version in SERVICES:
        try:
            return await _gather(channel, version, service=service)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.INTERNAL:
                broken = error
            elif error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
    if broken is not None:
        raise broken
    problem = f"the server offers no reflection, and no file of grpc.descriptor_sets has {service}"
    raise UnknownMethodError(problem)


async def _gather(channel: grpc.aio.Channel, version: str, *, service: str) -> tuple[_Files, int]:
    asked: asyncio.Queue[bytes] = asyncio.Queue()
    asked.put_nowait(reflection_pb2.ServerReflectionRequest(file_containing_symbol=service).SerializeToString())
    files: _Files = {}
    wanted: set[str] = set()
    size, waiting = 0, 1

    async def requests() -> AsyncIterator[bytes]:
        while True:
            yield await asked.get()

    method: Reflection = channel.stream_stream(f"/{version}/ServerReflectionInfo")
    call = method(requests(), timeout=LONGEST_ASK.total_seconds())
    try:
        async for answer in call:
            waiting -= 1
            size += len(answer)
            _check_bound(size <= MOST_BYTES, service)
            got = await asyncio.to_thread(_read_files, answer, service)
            files |= got
            missing = {name for file in got.values() for name in file.dependency} - files.keys() - wanted
            wanted |= missing
            _check_bound(len(files.keys() | wanted) <= MOST_FILES, service)
            for name in missing:
                asked.put_nowait(reflection_pb2.ServerReflectionRequest(file_by_filename=name).SerializeToString())
            waiting += len(missing)
            if not waiting:
                break
    finally:
        call.cancel()
    if waiting:
        raise UnknownMethodError(f"the server ended its description of {service} too early")
    return files, size


def _check_bound(is_kept: bool, service: str) -> None:
    if not is_kept:
        problem = f"the server's description of {service} is too large; name a file in grpc.descriptor_sets"
        raise UnknownMethodError(problem)


def _read_files(raw: bytes, service: str) -> _Files:
    """The files of one answer. Numbers are checked before anything is made of them."""
    try:
        answer = reflection_pb2.ServerReflectionResponse.FromString(raw)
        if answer.HasField("error_response"):
            told = answer.error_response.error_message[:200]
            raise UnknownMethodError(f"the server does not describe {service}: {told}")
        described = answer.file_descriptor_response.file_descriptor_proto
        _check_bound(len(described) <= MOST_FILES, service)
        files = [FileDescriptorProto.FromString(one) for one in described]
    except DecodeError as exc:
        raise UnknownMethodError(f"the server's description of {service} cannot be read") from exc
    _check_bound(all(len(file.dependency) <= MOST_FILES for file in files), service)
    return {file.name: file for file in files}


def _pool(files: _Files) -> descriptor_pool.DescriptorPool:
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
