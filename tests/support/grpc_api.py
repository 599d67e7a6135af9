"""A real API process that serves HTTP and gRPC, and callers of both who may be anybody."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from rota.config.wiring import Role, build_roles, open_node
from rota.domain import access
from rota.domain.ids import DEFAULT_TENANT, TenantId
from rota.interfaces.front import ApiFront, serve_dev
from rota.interfaces.grpc.methods import METHODS, SERVICE, Method
from rota.testing.values import replace
from tests.support.api import PATIENCE, STRANGER, Api, a_plan
from tests.support.builders import a_config


def method_of(name: str) -> Method:
    return METHODS[f"/{SERVICE}/{name}"]


@dataclass(slots=True)
class GrpcApi(Api):
    """The servers and those who call them."""

    channel: grpc.aio.Channel | None = None
    front: ApiFront | None = None

    async def call(
        self,
        name: str,
        request: Message | bytes,
        *,
        role: access.Role = access.Role.ADMIN,
        tenant_id: TenantId = DEFAULT_TENANT,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> Any:
        """The answer of a unary method."""
        token = ("authorization", f"Bearer {await self.secret(role, tenant_id)}")
        return await self.raw_call(name, request, metadata=[token, *metadata])

    async def raw_call(self, name: str, request: Message | bytes, *, metadata: Sequence[tuple[str, str]] = ()) -> Any:
        """The same with no other metadata than this."""
        assert self.channel is not None
        method = method_of(name)
        invoke: Any = self.channel.unary_unary(method.path)
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        return method.response.FromString(await invoke(raw, metadata=tuple(metadata), timeout=PATIENCE))

    async def stream(self, name: str, request: Message, *, role: access.Role = access.Role.ADMIN) -> Any:
        """A call whose messages can be read."""
        assert self.channel is not None
        method = method_of(name)
        invoke: Any = self.channel.unary_stream(method.path, response_deserializer=method.response.FromString)
        secret = await self.secret(role)
        return invoke(request.SerializeToString(), metadata=(("authorization", f"Bearer {secret}"),), timeout=PATIENCE)


@asynccontextmanager
async def a_grpc_api(*roles: Role, **sections: Any) -> AsyncIterator[GrpcApi]:
    """As `an_api`, with gRPC beside HTTP."""
    api = {"grpc_port": 0, **sections.pop("api", {})}
    plan = replace(a_plan(api=api, **sections), open_front=serve_dev)
    async with open_node(plan) as node:
        for tenant_id in (DEFAULT_TENANT, STRANGER):
            await node.store.configs.put(a_config("email", tenant_id=tenant_id))
        built = await build_roles(plan, node, roles=[Role.API, *roles])
        running = asyncio.create_task(built.roles.run())
        front = built.front
        assert isinstance(front, ApiFront)
        assert front.grpc is not None
        channel = grpc.aio.insecure_channel(front.grpc.address)
        try:
            yield GrpcApi(built, front.http, channel=channel, front=front)
        finally:
            await channel.close()
            built.roles.stop()
            await running
