"""A member of an etcd cluster that does as it is told: answers, refuses for want of a leader, or lets calls wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from rota._proto.etcd import wire_pb2 as wire
from rota.infrastructure.etcd.client import COMPACT, STATUS, TXN
from rota.infrastructure.etcd.login import AUTHENTICATE
from rota.infrastructure.etcd.refusals import NO_LEADER

Context = Any  # grpc.aio.ServicerContext, which takes parameters for type checkers alone


@dataclass(slots=True)
class FakeMember:
    port: int = 0
    leader: int = 1  # 0: it knows none
    term: int = 1
    is_waiting: bool = False  # writes are neither done nor refused
    refusals: int = 0  # so many calls more are refused for want of a leader
    done: int = 0
    told: int = 0  # how often it said how it stands
    asked: asyncio.Event = field(default_factory=asyncio.Event)  # a write waits
    released: asyncio.Event = field(default_factory=asyncio.Event)  # … no longer
    in_use: int = 0  # bytes
    quota: int = 0  # bytes; 0: it is not told
    alarms: tuple[str, ...] = ()
    token: str = ""  # of the last login, without which it does nothing; "": whoever asks is let in
    logins: int = 0
    is_login_waiting: bool = False
    keeps_for_root: frozenset[str] = frozenset()  # methods that our user must not call
    own: bytes = b""  # what keys begin with that our user may read
    compacted: int = 0  # the revision before which the history is gone; 0: all of it is there
    kept: dict[bytes, wire.KeyValue] = field(default_factory=dict)  # what was written
    revision: int = 1
    heals_after: int = 0  # having told so often, it knows a leader, and lets writes wait no longer

    async def transact(self, request: wire.TxnRequest, context: Context) -> wire.TxnResponse:
        if self.refusals:
            self.refusals -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, NO_LEADER)
        if self.token and ("token", self.token) not in context.invocation_metadata():
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")
        if any(op.HasField("range") and not op.range.key.startswith(self.own) for op in request.success):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")
        if any(0 < op.range.revision < self.compacted for op in request.success):
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
        if self.is_waiting:
            self.asked.set()
            await self.released.wait()
        self.done += 1
        answers = [self._do(op) for op in request.success]
        return wire.TxnResponse(header=self._header, succeeded=True, responses=answers)

    def _do(self, op: wire.RequestOp) -> wire.ResponseOp:
        if op.HasField("put"):
            self.revision += 1
            written = wire.KeyValue(key=op.put.key, value=op.put.value, mod_revision=self.revision)
            self.kept[op.put.key] = written
            return wire.ResponseOp()
        found = [self.kept[op.range.key]] if op.range.key in self.kept else []
        return wire.ResponseOp(range=wire.RangeResponse(kvs=found, count=len(found)))

    async def let_in(self, _request: wire.AuthenticateRequest, _context: Context) -> wire.AuthenticateResponse:
        self.logins += 1
        if self.is_login_waiting:
            self.asked.set()
            await self.released.wait()
        self.token = f"token-{self.logins}"
        return wire.AuthenticateResponse(header=self._header, token=self.token)

    async def tell(self, _request: wire.StatusRequest, context: Context) -> wire.StatusResponse:
        await self._check_root(STATUS, context)
        self.told += 1
        status = wire.StatusResponse(
            header=self._header,
            leader=self.leader,
            db_size_in_use=self.in_use,
            db_size_quota=self.quota,
            errors=self.alarms,
        )
        if self.told == self.heals_after:
            self.leader, self.is_waiting = 1, False
            self.released.set()
        return status

    async def compact(self, request: wire.CompactRequest, context: Context) -> wire.CompactResponse:
        await self._check_root(COMPACT, context)
        self.compacted = request.revision
        return wire.CompactResponse(header=self._header)

    async def _check_root(self, method: str, context: Context) -> None:
        if method in self.keeps_for_root:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")

    @property
    def _header(self) -> wire.Header:
        return wire.Header(member_id=1, raft_term=self.term, revision=self.revision)


def _to_bytes(message: Any) -> bytes:
    packed: bytes = message.SerializeToString()
    return packed


@asynccontextmanager
async def a_fake_member() -> AsyncIterator[FakeMember]:
    member, server = FakeMember(), grpc.aio.server()
    for path, answer, kind in (
        (TXN, member.transact, wire.TxnRequest),
        (STATUS, member.tell, wire.StatusRequest),
        (COMPACT, member.compact, wire.CompactRequest),
        (AUTHENTICATE, member.let_in, wire.AuthenticateRequest),
    ):
        _, service, method = path.split("/")
        handler: Any = grpc.unary_unary_rpc_method_handler(answer, kind.FromString, _to_bytes)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    member.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield member
    finally:
        await server.stop(None)
