"""A real API server on a free port, in this process, and clients of every role."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from rota.application.node import Node
from rota.application.ports.system import System
from rota.application.services import Services
from rota.config.embedded import flatten
from rota.config.load import Sources, load
from rota.config.reload import LiveSettings
from rota.config.wiring import Blueprint, Built, Role, build_roles, open_node
from rota.domain import access
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.infrastructure.event_loop import new_event_loop
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.interfaces.http.server import HttpServer, serve_http
from rota.sdk.tasks import TaskRegistry
from tests.support.builders import MINUTE, a_config

PATIENCE = 60.0
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading the authorities for each client takes long
STRANGER = TenantId("stranger")


@dataclass(slots=True)
class Api:
    """The server and those who call it."""

    built: Built
    server: HttpServer
    secrets: dict[tuple[access.Role, TenantId], str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.server.address

    @property
    def services(self) -> Services:
        return self.server.state.services

    async def secret(self, role: access.Role = access.Role.ADMIN, tenant_id: TenantId = DEFAULT_TENANT) -> str:
        """The secret of a token of this role, made when it is first asked for."""
        if (role, tenant_id) not in self.secrets:
            _, secret = await self.services.tokens.issue(
                tenant_id=tenant_id, name=f"{role} of {tenant_id}", role=role, expires_in=None, actor=None
            )
            self.secrets[role, tenant_id] = secret
        return self.secrets[role, tenant_id]

    @asynccontextmanager
    async def client(
        self, role: access.Role = access.Role.ADMIN, tenant_id: TenantId = DEFAULT_TENANT
    ) -> AsyncIterator[httpx2.AsyncClient]:
        """A client with a token of this role."""
        headers = {"Authorization": f"Bearer {await self.secret(role, tenant_id)}"}
        async with httpx2.AsyncClient(
            base_url=f"{self.url}/api/v1", headers=headers, timeout=PATIENCE, verify=NO_TLS
        ) as client:
            yield client

    @asynccontextmanager
    async def nobody(self) -> AsyncIterator[httpx2.AsyncClient]:
        """A client without a token, at the root."""
        async with httpx2.AsyncClient(base_url=self.url, timeout=PATIENCE, verify=NO_TLS) as client:
            yield client


def a_plan(*, tasks: TaskRegistry | None = None, **sections: Any) -> Blueprint:
    always = {"metrics.collector": "prometheus", "store.url": "memory://", "api.port": 0, "api.rate": "null"}
    loaded = load(Sources(flags=always | flatten(sections), folder=Path("/nowhere")))
    return Blueprint(
        settings=loaded.settings,
        system=System(SystemClock(), SystemRandom()),
        tasks=TaskRegistry() if tasks is None else tasks,
        open_front=serve_http,
        list_settings=LiveSettings(loaded, read=lambda: loaded, find_file=lambda: None).describe,
    )


@asynccontextmanager
async def an_api(*roles: Role, tasks: TaskRegistry | None = None, **sections: Any) -> AsyncIterator[Api]:
    """A process with the role api, and others if they are named; a config `email` is there in two tenants."""
    plan = a_plan(tasks=tasks, **sections)
    async with open_node(plan) as node:
        for tenant_id in (DEFAULT_TENANT, STRANGER):
            await node.store.configs.put(a_config("email", tenant_id=tenant_id))
        built = await build_roles(plan, node, roles=[Role.API, *roles])
        running = asyncio.create_task(built.roles.run())
        assert isinstance(built.front, HttpServer)
        try:
            yield Api(built, built.front)
        finally:
            built.roles.stop()
            await running


@contextmanager
def an_api_in_a_thread(**sections: Any) -> Iterator[tuple[str, str]]:
    """The same for tests that do not await: its address and the secret of an administrator."""
    told = threading.Event()
    found: list[tuple[str, str]] = []
    stop: list[Any] = []

    async def main() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        async with an_api(**sections) as api:
            found.append((api.url, await api.secret()))
            told.set()
            await ended.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert told.wait(PATIENCE), "the server did not start"
        yield found[0]
    finally:
        stop[0]()
        thread.join(PATIENCE)


async def defer_first_attempt(node: Node, task_id: TaskId) -> None:
    """As if a worker had been granted the task, and had handed it on."""
    for change in ("grant", "defer"):
        state = (await node.store.tasks.load([task_id]))[task_id].state
        at = max(node.time.now(), state.due_at)
        step = state.granted(WorkerId(1), term=1, at=at, timeout=MINUTE) if change == "grant" else state.deferred(at=at)
        assert (await node.store.tasks.advance([step])).applied
